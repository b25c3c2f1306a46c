"""Better checklists from what judge and physicians disagree on."""
