package perf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// Between machines, the control channel is a VI that carries chunks of up to chunkSize bytes. Each
// half sends only a few chunks before it waits for the other half.
const (
	chunkSize  = 4096
	chunkDepth = 32
)

// viStream is a byte stream over a connected VI. Only one goroutine may use it.
type viStream struct {
	ctx     context.Context
	vi      *vipl.VI
	out     vipl.Descriptor
	outData []byte
	in      *vipl.Descriptor // the chunk that is being read
	rest    []byte           // of it
}

// newVIStream prepares an idle VI. It posts the VI's receives.
func newVIStream(ctx context.Context, nic *vipl.NIC) (*viStream, error) {
	vi, err := nic.CreateVI(nil, nil, nil)
	if err != nil {
		return nil, err
	}
	mem, handle, err := nic.AllocMem(chunkSize*(chunkDepth+1), nil)
	if err != nil {
		return nil, err
	}
	s := &viStream{ctx: ctx, vi: vi, outData: mem[:chunkSize]}
	s.out.Segs = []vipl.Segment{{Handle: handle}}
	for i := 1; i <= chunkDepth; i++ {
		chunk := mem[i*chunkSize : (i+1)*chunkSize]
		d := &vipl.Descriptor{Segs: []vipl.Segment{{Data: chunk, Handle: handle}}}
		if err := vi.PostRecv(d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Read is part of io.Reader.
func (s *viStream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.in != nil {
			if err := s.vi.PostRecv(s.in); err != nil {
				return 0, err
			}
			s.in = nil
		}
		d, err := s.vi.RecvWait(s.ctx)
		if errors.Is(s.vi.Err(), vipl.ErrDisconnected) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		s.in, s.rest = d, d.Segs[0].Data[:d.Length]
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Write is part of io.Writer.
func (s *viStream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(s.outData, p[n:])
		s.out.Segs[0].Data = s.outData[:k]
		if err := s.vi.PostSend(&s.out); err != nil {
			return n, err
		}
		if _, err := s.vi.SendWait(s.ctx); err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// Station is the interface on which Listen and Dial measure.
type Station struct {
	NIC   vipl.Config // the interface, and the NIC over which the halves communicate
	IP    netip.Addr  // for tcp and udp; zero: the interface's own address
	Watch Watcher     // may be nil
	Wrap  func(transport.Link) transport.Link
	Card  []string // see Half.Card
}

// openNIC opens the NIC of the control channel, and registers it with Watch. done unregisters and
// closes it.
func (s *Station) openNIC(ctx context.Context) (nic *vipl.NIC, done func(), err error) {
	if nic, err = vipl.Open(ctx, &s.NIC); err != nil {
		return nil, nil, err
	}
	forget := watch(s.Watch, Opened{NIC: nic})
	return nic, func() {
		forget()
		nic.Close()
	}, nil
}

// half returns the half whose control channel is rw.
func (s *Station) half(nic *vipl.NIC, rw io.ReadWriter) *Half {
	at := s.NIC.Interface // which may be one of several IP addresses
	if info := seam.Link(nic).Info(); at == "" && !info.SameHost {
		at = info.Interface
	}
	h := NewHalf(at, cmp.Or(s.IP, ownIP(at)), rw)
	h.Watch, h.Wrap, h.Card = s.Watch, s.Wrap, s.Card
	return h
}

// Listen waits for one client after another and serves each, until ctx is
// done. announce is called once with the address and the name that Dial takes.
func Listen(ctx context.Context, at Station, announce func(ethertype.Addr, string)) error {
	nic, done, err := at.openNIC(ctx)
	if err != nil {
		return err
	}
	defer done()
	l, err := nic.Listen(0)
	if err != nil {
		return err
	}
	defer l.Close()
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("perf: read the host name: %w", err)
	}
	name := "perf/" + host
	if err := nic.Advertise(name, l.Addr()); err != nil {
		return err
	}
	announce(l.Addr(), name)
	for {
		if err := serveOne(ctx, at, nic, l); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil && !errors.Is(err, errControl) {
			return err
		}
	}
}

// serveOne serves the next client. A broken control channel ends only this client's measurement.
func serveOne(ctx context.Context, at Station, nic *vipl.NIC, l *vipl.Listener) error {
	req, err := l.Wait(ctx)
	if err != nil {
		return err
	}
	s, err := newVIStream(ctx, nic)
	if err != nil {
		return err
	}
	defer s.vi.Close()
	if err := req.Accept(ctx, s.vi); err != nil {
		return fmt.Errorf("%w: %w", errControl, err)
	}
	return at.half(nic, s).Serve(ctx)
}

// ownIP returns an address of the interface, whose name may be an IP address. It returns the zero
// address if the interface has no address that works without a zone.
func ownIP(name string) netip.Addr {
	_, ip, err := iface.FindUDP(name)
	if err != nil || ip.IsLinkLocalUnicast() {
		return netip.Addr{}
	}
	return ip
}

// Dial measures plan with the process that runs Listen at the address or name to. If the plan names
// no stacks, Dial measures those that need no IP address, or all stacks if at has an IP address.
// Dial uses the interface's MTU and ignores the plan's MTUs.
func Dial(ctx context.Context, at Station, to string, plan Plan, progress Progress) ([]Record, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	nic, done, err := at.openNIC(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	named := plan.Stacks
	if len(named) == 0 && !at.IP.IsValid() {
		plan.Stacks = ownStacks()
	}
	cases := plan.Cases(nic.Query().NativeMTU)
	if err := plan.withDefaults().checkCases(named, cases); err != nil {
		return nil, err
	}
	addr, err := Resolve(ctx, nic, to)
	if err != nil {
		return nil, err
	}
	s, err := newVIStream(ctx, nic)
	if err != nil {
		return nil, err
	}
	defer s.vi.Close()
	if err := s.vi.Connect(ctx, addr, nil); err != nil {
		return nil, err
	}
	return at.half(nic, s).Measure(ctx, plan, cases, progress)
}

// CheckTarget refuses a text that is neither the address of a station nor a name that a program
// can have advertised.
func CheckTarget(text string) error {
	host := text
	if h, _, err := net.SplitHostPort(text); err == nil {
		host = h
	}
	_, notIP := netip.ParseAddr(host)
	switch {
	case text == "":
		return errors.New("empty target: want an address or a name")
	case notIP == nil:
		return fmt.Errorf("%s is an IP address: Bobnet addresses are MAC/port, such as 02:00:00:00:00:01/1024, or names that programs advertise (bobnet top shows the stations)", text)
	case addressLike(text):
		_, err := ethertype.ParseAddr(text)
		return err
	case len(text) > vipl.MaxName:
		return fmt.Errorf("want a name of at most %d bytes, found %d", vipl.MaxName, len(text))
	}
	return nil
}

// addressLike reports whether text begins with a MAC address and the separator before a port. Such
// a text is an address and not a name.
func addressLike(text string) bool {
	i := strings.LastIndexAny(text, "/:")
	if i < 0 {
		return false
	}
	_, err := ethertype.ParseMAC(text[:i])
	return err == nil
}

// Resolve returns the address that text contains or names. If no host has that name and the text
// looks like an address, the error also says why it is not a valid address.
func Resolve(ctx context.Context, nic *vipl.NIC, text string) (ethertype.Addr, error) {
	addr, malformed := ethertype.ParseAddr(text)
	if malformed == nil {
		return addr, nil
	}
	addr, err := nic.Lookup(ctx, text)
	if err != nil && strings.Contains(text, ":") {
		err = fmt.Errorf("%w; and as an address: %w", err, malformed)
	}
	return addr, err
}
