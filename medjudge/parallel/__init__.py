"""Work shared by several processes of one machine, or by the workers of a Ray cluster."""
