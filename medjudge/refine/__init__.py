"""Better checklists and rubrics from what judge and physicians disagree on."""
