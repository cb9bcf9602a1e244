package ethertype

import (
	"fmt"
	"testing"
)

// benchFrame returns a sealed frame with n bytes of payload, and its header.
func benchFrame(n int, flags Flags) (Header, []byte) {
	h := sample
	h.Flags, h.Offset, h.Length, h.Size = flags, 0, uint32(n), uint16(n)
	return h, encode(h, make([]byte, n))
}

func TestNoAllocations(t *testing.T) {
	h, frame := benchFrame(1000, FlagWholeCRC)
	payload := frame[HeaderSize:]
	records := packed("one", "seven")
	extension := make([]byte, RDMASize)
	for name, f := range map[string]func(){
		"Parse": func() {
			if _, err := h.Parse(frame); err != nil {
				t.Fatal(err)
			}
		},
		"Put":        func() { h.Put(frame) },
		"Seal":       func() { Seal(frame[:HeaderSize], payload[:500], payload[500:]) },
		"RDMA":       func() { RDMA{Addr: 1}.Put(extension); ParseRDMA(extension) },
		"NextRecord": func() { NextRecord(records) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func benchmark(b *testing.B, run func(h *Header, frame []byte)) {
	for _, n := range []int{0, 64, 1438} {
		for _, flags := range []Flags{0, FlagWholeCRC} {
			b.Run(fmt.Sprintf("size=%d/flags=%s", n, flags), func(b *testing.B) {
				h, frame := benchFrame(n, flags)
				b.ReportAllocs()
				for b.Loop() {
					run(&h, frame)
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	benchmark(b, func(h *Header, frame []byte) {
		if _, err := h.Parse(frame); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkPutSeal(b *testing.B) {
	benchmark(b, func(h *Header, frame []byte) {
		h.Put(frame)
		Seal(frame[:HeaderSize], frame[HeaderSize:])
	})
}
