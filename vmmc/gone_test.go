package vmmc_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestInterfaceGone: a process that waits for a notification, a word or an import ends its waits
// when its interface is gone.
func TestInterfaceGone(t *testing.T) {
	pair := vethtest.New(t, 1500)
	var nic *vipl.NIC
	check(t, pair.In(0, func() (err error) {
		nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
		return err
	}))
	defer nic.Close()
	p, err := vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Job: scopeOf(t), Logger: quiet})
	check(t, err)
	defer p.Close()
	ended := make(chan error)
	go func() { ended <- p.WaitNotification(bg) }()
	go func() { _, err := p.Spin(bg, new(uint32), 0); ended <- err }()
	go func() { ended <- p.Await(bg, func() bool { return false }) }()
	go func() { _, err := p.Import(bg, vmmc.Name{Process: 9, ID: 1}); ended <- err }()
	check(t, pair.Delete())
	for range 4 {
		if err := <-ended; !errors.Is(err, transport.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	}
}
