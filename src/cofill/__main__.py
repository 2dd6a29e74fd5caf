"""``python -m cofill``: the command, where its script is not on the path."""

from cofill.cli import main

if __name__ == "__main__":
    main()
