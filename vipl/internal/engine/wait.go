package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Wait lets time pass for a caller that has found nothing at g, and returns for it to
// look again, or an error that ends the wait.
func (m *Machine) Wait(w *progress.Waiter, g *progress.Gate) error {
	if err := m.eng.Wait(w, g); err != nil {
		return WaitError(err)
	}
	return nil
}

// WaitError says in the words of package vipl why a wait of progress.Engine.Wait has ended.
func WaitError(err error) error {
	var end *progress.EndError
	errors.As(err, &end)
	switch {
	case end.Failed != nil:
		return code.Within("wait", fmt.Errorf("%w: %w", code.ErrLink, end.Failed))
	case end.Context != nil:
		return code.Within("wait", fmt.Errorf("%w: %w", code.ErrTimeout, end.Context))
	}
	return code.Within("wait", fmt.Errorf("%w after %v", code.ErrTimeout, end.After.Round(time.Millisecond)))
}
