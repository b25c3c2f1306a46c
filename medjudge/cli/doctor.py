"""`medjudge doctor`: what this machine has, and what will be slow or missing."""

from medjudge.cli import options


def doctor(as_json: options.AsJson = False) -> None:
    """Show what this machine has, and what is missing."""
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.doctor import diagnose

    diagnosis = diagnose()
    if as_json:
        print_json(diagnosis)
        return
    screen = console(as_json)
    for section in ("hardware", "packages", "shipped_files", "bases", "local_judge"):
        screen.print(section)
        for name, value in diagnosis[section].items():
            screen.print(f"  {name}: {'not installed' if value is None else value}")
    for line in diagnosis["advice"]:
        screen.print(f"- {line}")
