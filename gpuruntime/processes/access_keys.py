"""`gpuruntime access-key`: creates the key with which the access gateway signs requests to accessors."""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from gpuruntime.gateway.signing.keys import AccessKeyError, SigningKey

__all__ = ["COMMAND"]


class _AccessKeyCommand:
    """Writes a new private key into a file, and prints the public key."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add description and flags."""
        parser.description = (
            "Create an Ed25519 key for the access gateway. The private key is written to a file that must not exist yet"
            " (accessGateway.signingKeyFile); the public key is printed, for accessor.publicKeys of the controllers."
        )
        parser.add_argument("--file", type=Path, required=True, metavar="FILE", help="the file of the private key")

    def run(self, arguments: argparse.Namespace) -> int:
        """Create a key; 1 if the file exists or cannot be written, or package cryptography is not installed."""
        try:
            key = SigningKey.generate()
            file = os.open(arguments.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600)
            with os.fdopen(file, "wb") as opened:
                opened.write(key.pem)
        except (AccessKeyError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(key.public_text)
        return 0


COMMAND: Final = _AccessKeyCommand()
