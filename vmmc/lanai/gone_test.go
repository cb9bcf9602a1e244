package lanai_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestInterfaceGone: waits of processes at a live card end when the card's interface is gone.
func TestInterfaceGone(t *testing.T) {
	pair := vethtest.New(t, 1500)
	var host *lanai.Card
	err := pair.In(0, func() (err error) {
		host, err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	const waiters = 2
	ended := make(chan error)
	for i := range uint32(waiters) {
		p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: host, Process: i + 1})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		go func() { ended <- p.WaitNotification(t.Context()) }()
		go func() { _, err := p.Spin(t.Context(), new(uint32), 0); ended <- err }()
		go func() { ended <- p.Await(t.Context(), func() bool { return false }) }()
		go func() { _, err := p.Import(t.Context(), vmmc.Name{Process: 9, ID: 1}); ended <- err }()
	}
	if err := pair.Delete(); err != nil {
		t.Fatal(err)
	}
	for range 4 * waiters {
		if err := <-ended; !errors.Is(err, transport.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	}
	if _, err := vmmc.Open(t.Context(), &vmmc.Config{Card: host, Process: 3}); !errors.Is(err, transport.ErrGone) {
		t.Errorf("open a process: %v, want ErrGone", err)
	}
}

// TestInterfaceDown: a host outlives an interface that is down for a while.
func TestInterfaceDown(t *testing.T) {
	pair := vethtest.New(t, 1500)
	var hosts [2]*lanai.Card
	for side := range hosts {
		if err := pair.In(side, func() (err error) {
			hosts[side], err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name, Cable: myrinet.LiveOptions{Silence: 100 * time.Millisecond}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer hosts[side].Close()
	}
	until := func(up bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); hosts[0].Snapshot().Cable.Up != up; <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the cable is still up: %t", !up)
			}
		}
	}
	until(true)
	if err := pair.SetUp(0, false); err != nil {
		t.Fatal(err)
	}
	until(false)
	if err := pair.SetUp(0, true); err != nil {
		t.Fatal(err)
	}
	until(true)
	p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: hosts[0], Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}
