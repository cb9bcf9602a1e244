package main

import (
	"os"

	"github.com/bobnet-go/bobnet/internal/userfile"
)

// stdout is the standard output, of verbs and of the ranks that they start. The first error of
// writing becomes the command's if it has no other.
var stdout = userfile.Keep(os.Stdout)
