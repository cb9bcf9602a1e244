package stream_test

import (
	"io"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/transport/seal"
)

// TestLongestMessage: where frames are longest, the longest message is one frame, sealed or not,
// and the longest packet of an IP interface is one message.
func TestLongestMessage(t *testing.T) {
	const recordHead, vnetHead = 4, 10 // before a packet; see package tun
	if tun.MaxMTU+recordHead+vnetHead > stream.MaxMessage {
		t.Errorf("a packet of %d bytes is longer than a message, %d", tun.MaxMTU, stream.MaxMessage)
	}
	for name, key := range map[string]seal.Source{"plain": nil, "sealed": aKey} {
		t.Run(name, func(t *testing.T) {
			const room = 4 * stream.MaxMessage // of which no message crosses the end
			from, to := vethHosts(t, stream.Config{ReadBuffer: room, WriteBuffer: room}, key)
			a, b, err := connect(within(t), from, listen(t, to, "bobnet://longest"))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			defer b.Close()
			a.SetDeadline(time.Now().Add(patience))
			b.SetDeadline(time.Now().Add(patience))
			buf := make([]byte, stream.MaxMessage)
			pass := func() {
				t.Helper()
				if _, err := a.Write(buf); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(b, buf); err != nil {
					t.Fatal(err)
				}
			}
			for pass(); !carriesLong(from); { // which the path is proven to do while it is used
				pass()
			}
			const count = 10
			messages, frames := a.Stats().MessagesSent, framesSent(from)
			for range count {
				pass()
			}
			messages, frames = a.Stats().MessagesSent-messages, framesSent(from)-frames
			if messages != count || frames != count {
				t.Errorf("%d writes of %d bytes were %d messages in %d frames", count, len(buf), messages, frames)
			}
		})
	}
}

// carriesLong reports whether a connection of the host sends frames longer than its interface has.
func carriesLong(h *stream.Host) bool {
	s := h.NIC().Snapshot()
	for i := range s.VIs {
		if s.VIs[i].FrameData > s.Attributes.NativeMTU {
			return true
		}
	}
	return false
}

// framesSent returns how many frames connections of the host have sent, each counted once.
func framesSent(h *stream.Host) (n uint64) {
	for _, v := range h.NIC().Snapshot().VIs {
		n += v.Sender.Sent
	}
	return n
}
