"""What runs until Ctrl-C and serves others: `relevo up`, `relevo serve`, `relevo agents`, a file each."""
