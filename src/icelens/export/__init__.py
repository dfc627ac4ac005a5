"""What leaves a review: the user's own files with the verdicts in them, and files of other tools."""
