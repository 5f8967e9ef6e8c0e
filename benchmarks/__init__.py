"""Commands that measure Pillarbox beside named peers, on the same server in the same run."""
