package doctor

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
)

// End is a NIC that takes part in a test of the paths between hosts. It answers the others until
// Close.
type End struct {
	EndFacts
	nic    *vipl.NIC
	host   *stream.Host // nil where no long frames could pass
	before Traffic
}

// EndFacts are what an End tells the others, and the judge.
type EndFacts struct {
	Addr      ethertype.Addr
	Interface string
	MTU       int
	Stream    string `json:",omitempty"` // where a stream echoes what is written, to try long frames; "" where none could pass
	Err       string `json:",omitempty"` // why there is no NIC
	Drops     []Drop `json:",omitempty"` // rules of the host that drop frames, as far as they can be read
}

// Reach is what came of sending frames to another End and back.
type Reach struct {
	Small, Full time.Duration // round trips of short frames, and of frames as long as both MTUs allow; 0: none came back
	MTU         int           // of those
	Carries     int           `json:",omitempty"` // the largest MTU whose frames came back, if full ones did not; 0: not measured
	Long        bool          `json:",omitempty"` // long frames pass to the other end
}

// OpenEnd opens a NIC with cfg. Where it cannot, EndFacts says why.
func OpenEnd(ctx context.Context, cfg *vipl.Config) *End {
	e := &End{}
	nic, err := vipl.Open(ctx, cfg)
	if err != nil {
		e.Err = err.Error()
		return e
	}
	info := seam.Link(nic).Info()
	e.nic, e.Addr, e.Interface, e.MTU = nic, nic.Addr(), info.Interface, nic.Query().NativeMTU
	if raw(cfg.Driver) {
		e.Drops, _ = Drops(info.Interface, cmp.Or(cfg.EtherType, ethertype.Default)) // who may not read them sees by the traffic that nothing leaves
		e.before = countTraffic(nic)
	}
	if driver, _ := iface.Driver(info.Interface); driver == "veth" && info.MTU < framing.LongMTU {
		e.serve()
	}
	return e
}

// Reach sends frames to the other ends, to all at once, and returns what came of each, in their order,
// and the traffic since OpenEnd. An end without a NIC is not tried.
func (e *End) Reach(ctx context.Context, others []EndFacts) ([]Reach, Traffic) {
	all := make([]Reach, len(others))
	if e.nic == nil {
		return all, Traffic{}
	}
	var wait sync.WaitGroup
	for i, o := range others {
		if o.Err != "" || o.Addr == e.Addr {
			continue
		}
		wait.Go(func() {
			p := Peer{Addr: o.Addr, MTU: o.MTU}
			p.measure(ctx, e.nic)
			all[i] = Reach{Small: p.Small, Full: p.Full, MTU: p.FullBytes + ethertype.BaseSize, Carries: p.Carries}
			all[i].Long = p.Full > 0 && e.long(ctx, &o)
		})
	}
	wait.Wait()
	if e.before == (Traffic{}) {
		return all, Traffic{}
	}
	return all, countTraffic(e.nic).since(e.before)
}

// serve echoes what others write to streams.
func (e *End) serve() {
	host, err := stream.Open(context.Background(), &stream.Config{NIC: e.nic})
	if err != nil {
		return
	}
	l, err := (&stream.ListenConfig{Host: host}).Listen(context.Background(), "")
	if err != nil {
		host.Close()
		return
	}
	e.host, e.Stream = host, l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
}

// longTime is how long a connection may take to find out whether long frames pass.
const longTime = 500 * time.Millisecond

// long reports whether long frames pass to another end: a connection to it finds that out.
func (e *End) long(ctx context.Context, to *EndFacts) bool {
	if e.host == nil || to.Stream == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, longTime)
	defer cancel()
	c, err := (&stream.Dialer{Host: e.host}).Dial(ctx, to.Stream)
	if err != nil {
		return false
	}
	defer c.Close()
	end, _ := ctx.Deadline()
	c.SetDeadline(end)
	for one := []byte{1}; ; {
		s := e.nic.Snapshot()
		if slices.ContainsFunc(s.VIs, func(v vipl.VISnapshot) bool {
			return v.Remote.MAC == to.Addr.MAC && v.FrameData > s.Attributes.NativeMTU
		}) {
			return true
		}
		if _, err := c.Write(one); err != nil {
			return false
		}
		if _, err := c.Read(one); err != nil {
			return false
		}
	}
}

// Close closes the NIC.
func (e *End) Close() {
	if e.host != nil {
		e.host.Close()
	}
	if e.nic != nil {
		e.nic.Close()
	}
}
