package lanai_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestSilentNode: of two processes on a card one writes to a node that does not answer. The other one's
// writes to another node, and its messages, do not wait for the end of that.
func TestSilentNode(t *testing.T) {
	const patience = 10 * time.Second
	n := newNetwork(t, myrinet.Options{Seed: 1})
	for i := range 3 {
		n.host(i, lanai.Config{PeerTimeout: patience})
	}
	boards := [3][]byte{}
	done := false
	var errs []error
	for i := 1; i < 3; i++ {
		n.Go(fmt.Sprint("exporter", i), func() {
			p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: n.hosts[i], Process: uint32(i)})
			if err == nil {
				boards[i] = make([]byte, 1<<16)
				_, err = p.Export(boards[i], 7, vmmc.Everybody, nil)
			}
			for err == nil && !done {
				err = n.Sleep(time.Millisecond)
				p.Poll()
			}
			errs = append(errs, err)
		})
	}
	silent := false
	n.Go("writer 1", func() {
		p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: n.hosts[0], Process: 11})
		if err != nil {
			errs = append(errs, err)
			return
		}
		i, err := p.Import(t.Context(), vmmc.Name{Process: 1, ID: 7})
		if err == nil {
			n.cables[1].Cut()
			silent = true
			if err = p.SendMsg(t.Context(), make([]byte, 1<<16), i.Addr()); errors.Is(err, vmmc.ErrPeer) {
				err = nil
			}
		}
		errs = append(errs, err)
	})
	n.Go("writer 2", func() {
		p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: n.hosts[0], Process: 12})
		for err == nil && !silent {
			err = n.Sleep(time.Millisecond)
		}
		if err == nil {
			err = n.Sleep(100 * time.Millisecond)
		}
		began := n.Now()
		var i *vmmc.Import
		if err == nil {
			i, err = p.Import(t.Context(), vmmc.Name{Process: 2, ID: 7})
		}
		for k := 0; err == nil && k < 10; k++ {
			err = p.SendMsg(t.Context(), make([]byte, 1<<16), i.Addr())
		}
		if took := time.Duration(n.Now() - began); err == nil && took > patience/10 {
			err = fmt.Errorf("writes to another node take %v", took)
		}
		done = true
		errs = append(errs, err)
	})
	if err := errors.Join(append(errs, n.Run())...); err != nil {
		t.Error(err)
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
