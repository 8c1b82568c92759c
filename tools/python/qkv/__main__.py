"""The command `qkv`, also `python -m qkv`: the program that the package brings."""

import os
import sys

from ._library import COMMAND


def main():
    os.execv(COMMAND, ["qkv", *sys.argv[1:]])


if __name__ == "__main__":
    main()
