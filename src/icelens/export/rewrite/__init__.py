"""Files written again as they were, but for labels that changed and rows that are left out."""
