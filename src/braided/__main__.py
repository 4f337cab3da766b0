"""`python -m braided`."""

from braided.cli import main

if __name__ == "__main__":
    main()
