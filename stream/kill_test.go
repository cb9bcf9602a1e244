package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
)

// victimEnv makes the test binary the program that TestKilledPeer kills.
const victimEnv = "BOBNET_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		os.Exit(victim())
	}
	os.Exit(m.Run())
}

// victim accepts a stream, reports that it has read something, and waits.
func victim() int {
	h, err := stream.Open(context.Background(), &stream.Config{Interface: vethtest.Name})
	if err == nil {
		var l *stream.Listener
		if l, err = (&stream.ListenConfig{Host: h}).Listen(background, "bobnet://victim"); err == nil {
			var c *stream.Conn
			if c, err = l.AcceptStream(); err == nil {
				_, err = io.CopyN(c, c, 5)
			}
		}
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	select {}
}

// TestKilledPeer: after the process at the other end is killed, blocked reads and writes end within
// a time limit. Their error names the peer.
func TestKilledPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as a silent peer is believed to be alive")
	}
	veth := vethtest.New(t, 1500)
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), victimEnv+"=1"), &said
	if err := veth.In(1, cmd.Start); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var nic *vipl.NIC
	err := veth.In(0, func() (err error) {
		nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	h := open(t, stream.Config{NIC: nic, PeerTimeout: 6 * time.Second, Linger: time.Second})
	c, err := (&stream.Dialer{Host: h}).Dial(within(t), "bobnet://victim")
	if err != nil {
		t.Fatalf("%v; %s", err, &said)
	}
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		for {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				wrote <- err
				return
			}
		}
	}()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, readErr := c.Read(make([]byte, 1))
	for _, err := range []error{readErr, <-wrote} {
		var who *vipl.ConnError
		if !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &who) || who.Remote.MAC != vethtest.MACs[1] {
			t.Errorf("%v", err)
		}
	}
	c.Close()
}
