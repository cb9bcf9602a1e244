package mplite_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInterfaceGone: a rank whose interface is gone does not wait for a message that cannot
// come, nor do ranks that are still to meet.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	var nics [2]*vipl.NIC
	for side := range nics {
		err := p.In(side, func() (err error) {
			nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer nics[side].Close()
	}
	var ranks [2]*mplite.Comm
	both(t, func(rank int) (err error) {
		ranks[rank], err = mplite.Init(bg, &mplite.Config{Config: job.Config{Job: t.Name(), Rank: rank, Size: 2, NIC: nics[rank]}})
		return err
	})
	ended := make(chan error)
	for rank := range ranks {
		go func() {
			_, err := ranks[rank].Recv(bg, make([]byte, 1), 1-rank, 0)
			ended <- err
		}()
	}
	go func() {
		_, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Job: "other", Rank: 0, Size: 2, NIC: nics[0]}})
		ended <- err
	}()
	if err := p.Delete(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-ended; !errors.Is(err, transport.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	}
}
