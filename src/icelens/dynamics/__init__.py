"""The flight recorder: what a network said of each example at each visit, to files and back."""
