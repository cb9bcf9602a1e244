package mplite_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestCreditsGrow: a connection on first use begins with four data credits. It keeps them while the ranks answer each
// other, and has Config.Credits when a rank has sent many messages at once. No message is lost or overtakes another one.
func TestCreditsGrow(t *testing.T) {
	const messages = 40
	cfg := mplite.Config{Connect: mplite.OnUse, EagerSize: 1 << 10, Credits: 16}
	seeds(t, 8, func(seed uint64) error {
		return runJob(2, sim.Options{Seed: seed, Loss: 0.02 * float64(seed%3)}, cfg, func(c *mplite.Comm) error {
			other := 1 - c.Rank()
			one, buf := make([]byte, 1), make([]byte, 1)
			for range 20 {
				if _, err := c.Sendrecv(bg, one, other, 0, buf, other, 0); err != nil {
					return err
				}
				if got := credits(c, other); got > 4 {
					return fmt.Errorf("%d credits although the ranks answer each other, want 4 at most", got)
				}
			}
			most := 0
			for i := range messages {
				if c.Rank() == 1 {
					if _, err := c.Recv(bg, buf, 0, 1); err != nil {
						return err
					}
					if buf[0] != byte(i) {
						return fmt.Errorf("message %d has come after %d others", buf[0], i)
					}
					continue
				}
				if err := c.Send(bg, []byte{byte(i)}, 1, 1); err != nil {
					return err
				}
			}
			for range 20 { // returns all credits
				if _, err := c.Sendrecv(bg, one, other, 2, buf, other, 2); err != nil {
					return err
				}
				most = max(most, credits(c, other))
			}
			if c.Rank() == 0 && (most < cfg.Credits-1 || most > cfg.Credits) {
				return fmt.Errorf("%d credits after %d messages at once, want %d", most, messages, cfg.Credits)
			}
			return nil
		})
	})
}
