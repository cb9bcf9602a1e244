// Package pcap wraps a link and writes every frame that passes to a pcapng file. Wireshark and tshark open such
// files; docs/bobnet.lua is a dissector for Bobnet's fields:
//
//	wireshark -X lua_script:docs/bobnet.lua FILE
//
// Each packet has the interface's name, the direction and a time in nanoseconds. The time is the link's clock, set
// to the wall clock once when the link is wrapped. The clock of a simulated link starts at the epoch. The file has
// the frames that the caller of the wrapped link sends and receives. To record the frames on the wire, wrap pcap in
// fault. To record the frames before faults, wrap fault in pcap.
//
// Long frames (transport.LongLink) pass, and are written in one piece, as frames of their EtherType. Other features of a link,
// such as shared memory within the host, are hidden by the wrapper, so that all frames pass through it. A link of
// package host around the wrapper bypasses it for frames within the host.
package pcap

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Writer writes the frames of one or more links to one file. Goroutines may share it. An error of
// the file ends the recording, but not the links.
type Writer struct {
	mu    sync.Mutex
	w     io.Writer
	out   *pcapgo.NgWriter // nil until the first interface is known
	known map[string]int   // interfaces in the file, by description
	dirty bool             // something is not flushed
	err   error            // the first; nothing is written after it
	said  bool             // a Close has returned err
	file  *userfile.File   // that Create has opened
}

// NewWriter returns a Writer to w. The caller closes w, after the links.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, known: map[string]int{}} }

// Create returns a Writer to a new file, replacing an existing one, or to a pipe that another
// process reads. The caller closes the Writer after the links.
func Create(name string) (*Writer, error) {
	f, err := userfile.Create(name)
	if err != nil {
		return nil, fmt.Errorf("pcap: %w", err)
	}
	w := NewWriter(f)
	w.file = f
	return w, nil
}

// Close flushes the file, closes the file if Create opened it, and returns the first error of
// writing. It returns the error even if the Close of a link has returned it before, because the
// owner of the link may have ignored it.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	if w.file != nil {
		w.fail(w.file.Close())
		w.file = nil
	}
	return w.err
}

// tell returns the first error, once. mu is held.
func (w *Writer) tell() error {
	if w.said {
		return nil
	}
	w.said = w.err != nil
	return w.err
}

// Err returns the first error of writing, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Flush writes buffered data to the file, and returns the same error as Err. Links call it before
// they wait and when they close.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	return w.err
}

func (w *Writer) flush() {
	if w.dirty && w.err == nil {
		w.fail(w.out.Flush())
		w.dirty = false
	}
}

func (w *Writer) fail(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("pcap: writing frames: %w", err)
	}
}

// enter returns the number in the file of the interface that info describes.
func (w *Writer) enter(info transport.Info) (id int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0
	}
	face := pcapgo.NgInterface{
		Name:        info.Interface,
		Description: fmt.Sprintf("Bobnet %s, %v, ports %d-%d, MTU %d", info.Driver, info.MAC, info.Ports.Lo, info.Ports.Hi, info.MTU),
		OS:          runtime.GOOS,
		LinkType:    layers.LinkTypeEthernet,
		SnapLength:  ethertype.MaxFrame,
	}
	key := face.Name + "\n" + face.Description
	if id, ok := w.known[key]; ok {
		return id
	}
	var err error
	if w.out == nil {
		w.out, err = pcapgo.NewNgWriterInterface(w.w, face, pcapgo.NgWriterOptions{
			SectionInfo: pcapgo.NgSectionInfo{Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: "Bobnet"},
		})
	} else {
		id, err = w.out.AddInterface(face)
	}
	w.fail(err)
	w.known[key], w.dirty = id, true
	return id
}

// write writes one frame. mu is held, and err is nil.
func (w *Writer) write(id int, at time.Time, flags *pcapgo.NgEpbFlags, frame []byte) {
	w.dirty = true
	info := gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(frame), Length: len(frame), InterfaceIndex: id}
	w.fail(w.out.WritePacketWithOptions(info, frame, pcapgo.NgPacketOptions{Flags: flags}))
}

// The flags of frames in either direction.
var (
	outbound = &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
	inbound  = &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
)

// Link is a transport.Link whose frames are recorded. Goroutines may share it as documented at
// transport.Link. It allocates.
type Link struct {
	base
	w       *Writer
	id      int
	start   time.Time // wall-clock time of the zero of the clock
	scratch []byte    // a frame that is sent, in one piece
}

type base = wrap.Base

var (
	_ transport.LongLink = (*Link)(nil)
	_ transport.Checker  = (*Link)(nil)
	_ optional.Parking   = (*Link)(nil)
)

// New returns a link that forwards everything to link and records it in w. The caller must not use
// link any more; Close closes link, but not w.
func New(link transport.Link, w io.Writer) *Link { return NewWriter(w).Wrap(link) }

// Wrap returns a link that forwards everything to link and records it. The caller must not use link
// any more; Close closes it.
func (w *Writer) Wrap(link transport.Link) *Link {
	info := link.Info()
	l := &Link{base: wrap.New(link, "pcap"), w: w, id: w.enter(info), start: time.Unix(0, 0)}
	if !info.Virtual {
		l.start = time.Now().Add(-time.Duration(link.Now()))
	}
	return l
}

// Err returns the first error of writing, or nil.
func (l *Link) Err() error { return l.w.Err() }

func (l *Link) time() time.Time { return l.start.Add(time.Duration(l.Now())) }

// Send implements transport.Link. It records the accepted frames.
func (l *Link) Send(frames []transport.Frame) (n int, err error) {
	at := l.time()
	n, err = l.Link.Send(frames)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for i := 0; i < n && l.w.err == nil; i++ {
		l.scratch = frames[i].AppendTo(l.scratch[:0])
		l.w.write(l.id, at, outbound, l.scratch)
	}
	return n, err
}

// Recv implements transport.Link.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	n, err = l.Link.Recv(views)
	last := wrap.Long(&l.base).See(views[:n])
	if n == 0 {
		return n, err
	}
	at := l.time()
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for i := 0; i < n && l.w.err == nil; i++ {
		frame := views[i]
		if i == n-1 {
			frame = last
		}
		l.w.write(l.id, at, inbound, frame)
	}
	return n, err
}

// Wait implements transport.Link. It flushes the file first, so that the file is complete while the
// link is idle.
func (l *Link) Wait(until int64) error {
	_ = l.w.Flush() // Close and Err return the error
	return l.Link.Wait(until)
}

// Close implements transport.Link. The first Close of a link after an error of writing returns that
// error, too.
func (l *Link) Close() error {
	err := l.Link.Close()
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.flush()
	return errors.Join(err, l.w.tell())
}
