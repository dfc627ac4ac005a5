"""`python -m icelens` is the command `icelens`."""

from icelens.cli import main

if __name__ == "__main__":
    main()
