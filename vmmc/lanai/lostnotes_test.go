package lanai_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestManyNotifications: more notifications than may wait, where nothing is lost: all come.
func TestManyNotifications(t *testing.T) {
	if told, err := notifyOften(t, 1500, 0, lanai.Config{}); err != nil || told != 1500 {
		t.Errorf("%d notifications of 1500 have come: %v", told, err)
	}
}

// TestLostNotifications: where nothing is sent again, the packets of some notifications are lost,
// many more than there is room for: the others go on. With many more bit errors a CRC-8 would pass
// some packets that are wrong.
func TestLostNotifications(t *testing.T) {
	const sends = 1500
	seeds(t, 5, func(seed uint64) error {
		told, err := notifyOften(t, sends, seed, lanai.Config{Drop: true, Retry: 100 * time.Microsecond})
		if err != nil || sends-told < 64 || told < sends/2 {
			return fmt.Errorf("%d notifications of %d have come: %w", told, sends, err)
		}
		return nil
	})
}

// notifyOften has a process send so many words with a notification to one of another host, by
// cables with bit errors if there is a seed, and returns how many of these were notified.
func notifyOften(t *testing.T, sends int, seed uint64, cfg lanai.Config) (told int, err error) {
	opts, ctx := myrinet.Options{Seed: seed}, context.Background()
	if seed > 0 {
		opts.BitErrors = 1e-4
	}
	n := newNetwork(t, opts)
	for i := range 2 {
		n.host(i, cfg)
	}
	over := false
	n.Go("exporter", func() {
		p, failed := vmmc.Open(t.Context(), &vmmc.Config{Card: n.hosts[0]})
		if failed == nil {
			defer p.Close()
			_, failed = p.Export(make([]byte, 4096), 1, vmmc.Everybody, func(vmmc.Notification) { told++ })
		}
		for failed == nil && !over {
			p.Poll()
			failed = n.Sleep(20 * time.Microsecond)
		}
	})
	n.Go("importer", func() {
		defer func() { over = true }()
		p, failed := vmmc.Open(t.Context(), &vmmc.Config{Card: n.hosts[1], Process: 1})
		if err = failed; err != nil {
			return
		}
		defer p.Close()
		m, failed := p.Import(ctx, vmmc.Name{ID: 1})
		for k := 0; k < sends && failed == nil; k++ {
			failed = p.SendMsgWithNotify(ctx, []byte{byte(k), 1, 2, 3}, m.Addr())
		}
		for k := 0; k < 2000 && failed == nil; k++ {
			p.Poll()
			failed = n.Sleep(20 * time.Microsecond)
		}
		err = failed
	})
	if failed := n.World.Run(); failed != nil {
		err = failed
	}
	return told, err
}
