"""One file per station: what the commands do, for Python and the command line alike."""
