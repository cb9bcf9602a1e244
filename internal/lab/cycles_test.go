package lab

import (
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/bobnet-go/bobnet/internal/leaktest"
)

// TestCycles makes labs of either topology, runs a job in each and closes
// them, again and again: no descriptor, process or namespace is left behind.
func TestCycles(t *testing.T) {
	needLab(t)
	var made []string
	leaktest.Run(t, 1, func(i int) error {
		l, err := New(t.Context(), Config{N: 2, Topology: Pair + Topology(i%2), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		made = append(made, l.namespaces(t)...)
		err = l.Run(t.Context(), []string{"true"}, RunOptions{Stdout: io.Discard, Stderr: io.Discard})
		return errors.Join(err, l.Close())
	})
	leaktest.None(t, "namespaces", func() []string { return leaktest.Namespaces(made) })
}
