package ring

import (
	"encoding/binary"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/xsk"
	"golang.org/x/sys/unix"
)

// Parameters of the measurement at Open. Open sends each kind of batch alternately through both
// sockets, and compares the fastest times. It repeats this trialMost times, or as often as possible
// within trialTime, but at least trialLeast times.
const (
	trialMost  = 16
	trialLeast = 4
	trialTime  = 3 * time.Millisecond
	trialBatch = 8
	trialSmall = 256 // bytes of a small frame
)

// trial is a kind of batch, and its fastest times in nanoseconds.
type trial struct {
	frames      []transport.Frame
	size        int // of each frame
	xdp, packet int64
}

// gain reports whether AF_XDP is faster by more than 5 %, which exceeds the noise.
func (k *trial) gain() bool { return k.xdp < k.packet-k.packet/20 }

// choose measures sock against the packet socket, and returns the frames that AF_XDP sends faster.
// If there are none, it closes sock.
func (t *sender) choose(sock *xsk.Socket, info transport.Info, limit int) express {
	trials := newTrials(info, limit)
	t.race(sock, trials)
	if e := verdict(trials); e.batch > 0 || e.single > 0 {
		e.sock = sock
		return e
	}
	sock.Close()
	return express{}
}

// newTrials returns a small frame alone, then batches of ascending sizes up to
// limit.
func newTrials(info transport.Info, limit int) []trial {
	buf := make([]byte, limit)
	head := ethertype.Header{Dst: info.MAC, Src: info.MAC, Type: info.EtherType, Kind: ethertype.KindTrial, DstPort: info.Ports.Lo, SrcPort: info.Ports.Lo}
	head.Put(buf[:ethertype.HeaderSize])
	trials := []trial{newTrial(buf[:min(trialSmall, limit)], 1)}
	for _, size := range []int{trialSmall, 1500 + ethertype.EthernetSize, xsk.MaxFrame} {
		trials = append(trials, newTrial(buf[:min(size, limit)], trialBatch))
		if size >= limit {
			break
		}
	}
	return trials
}

func newTrial(frame []byte, n int) trial {
	k := trial{frames: make([]transport.Frame, n), size: len(frame), xdp: transport.Forever, packet: transport.Forever}
	for i := range k.frames {
		k.frames[i].Head = frame
	}
	return k
}

// race measures the trials, until one of the sockets fails.
func (t *sender) race(sock *xsk.Socket, trials []trial) {
	start := driver.Now()
	for round := 0; round < trialMost && (round < trialLeast || driver.Now() < start+int64(trialTime)); round++ {
		for i := range trials {
			k := &trials[i]
			t0 := driver.Now()
			sent, _ := sock.Send(k.frames)
			t1 := driver.Now()
			took := t.offer(k.frames)
			t2 := driver.Now()
			if sent != len(k.frames) || took != len(k.frames) {
				return
			}
			k.xdp, k.packet = min(k.xdp, t1-t0), min(k.packet, t2-t1)
		}
	}
}

// offer sends frames through the packet socket and returns how many it took.
func (t *sender) offer(frames []transport.Frame) (took int) {
	if len(frames) == 1 {
		took, _, _ = t.one(frames[0].Head)
	} else {
		took, _, _ = t.gather(frames, xsk.MaxFrame)
	}
	return took
}

// verdict converts the measurements to limits: the longest frame such that AF_XDP is faster for it
// and for all shorter ones.
func verdict(trials []trial) (e express) {
	if k := &trials[0]; k.gain() {
		e.single = k.size
	}
	for i := range trials[1:] {
		k := &trials[1+i]
		if !k.gain() {
			break
		}
		e.batch = k.size
	}
	return e
}

// queued reports whether the interface has a queueing discipline. If this is unknown, it reports
// true.
func queued(index int) bool {
	rib, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return true
	}
	msgs, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return true
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg || int(binary.NativeEndian.Uint32(m.Data[4:])) != index {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return true
		}
		for _, a := range attrs {
			if a.Attr.Type == unix.IFLA_QDISC {
				return string(a.Value) != "noqueue\x00"
			}
		}
	}
	return true
}
