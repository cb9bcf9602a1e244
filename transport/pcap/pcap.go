// Package pcap wraps a link and writes every frame that passes to a pcapng
// file, which Wireshark and tshark open. docs/bobnet.lua teaches them what the
// fields mean:
//
//	wireshark -X lua_script:docs/bobnet.lua FILE
//
// A packet has the interface's name, the direction and a time in nanoseconds.
// The time is the link's clock, put to the wall clock once, when the link is
// wrapped; the clock of a simulated link starts at the epoch. Frames are
// written as the caller of the link sees them: to see what really went over the
// wire, wrap pcap in fault; to see what each side meant, wrap fault in pcap.
//
// Long frames (transport.LongLink) pass, and are written in one piece, as if they had
// no shim. What else a link can do, such as reaching its own host by shared memory,
// does not show through the wrapper, so that all frames pass it. A link of package host that is put around it sends
// what stays within the host past it.
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

// Writer writes the frames of one link or more to one file. Goroutines may
// share it. An error of the file ends the writing, not the links.
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

// NewWriter returns a Writer to w, which stays the caller's to close, after the
// links.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, known: map[string]int{}} }

// Create returns a Writer to a new file, which replaces an older one, or to a pipe that
// another process reads. The caller closes it after the links.
func Create(name string) (*Writer, error) {
	f, err := userfile.Create(name)
	if err != nil {
		return nil, fmt.Errorf("pcap: %w", err)
	}
	w := NewWriter(f)
	w.file = f
	return w, nil
}

// Close flushes the file, closes what Create has opened, and returns the first
// error of writing, also if the Close of a link has returned it: what owns the link
// may not pass that on.
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

// Err returns the first error of writing, nil if there was none.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Flush hands what is buffered to the file, and returns what Err does. Links do
// it before they wait and when they close.
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

// Link is a transport.Link whose frames are written down. Goroutines may share
// it as transport.Link says. It allocates.
type Link struct {
	base
	w       *Writer
	id      int
	start   time.Time // what the clock's zero is
	scratch []byte    // a frame that is sent, in one piece
}

type base = wrap.Base

var (
	_ transport.LongLink = (*Link)(nil)
	_ transport.Checker  = (*Link)(nil)
	_ optional.Parking   = (*Link)(nil)
)

// New returns a link that passes everything to link and writes it to w. The
// caller uses link no more; Close closes it, but not w.
func New(link transport.Link, w io.Writer) *Link { return NewWriter(w).Wrap(link) }

// Wrap returns a link that passes everything to link and writes it down. The
// caller uses link no more; Close closes it.
func (w *Writer) Wrap(link transport.Link) *Link {
	info := link.Info()
	l := &Link{base: wrap.New(link, "pcap"), w: w, id: w.enter(info), start: time.Unix(0, 0)}
	if !info.Virtual {
		l.start = time.Now().Add(-time.Duration(link.Now()))
	}
	return l
}

// Err returns the first error of writing, nil if there was none.
func (l *Link) Err() error { return l.w.Err() }

func (l *Link) time() time.Time { return l.start.Add(time.Duration(l.Now())) }

// Send implements transport.Link. It writes down the frames that were taken.
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

// Wait implements transport.Link. What has been written so far is in the file
// while the link is idle.
func (l *Link) Wait(until int64) error {
	_ = l.w.Flush() // Close and Err say
	return l.Link.Wait(until)
}

// Close implements transport.Link. It returns the first error of writing, too,
// the first time that a link of the Writer is closed after it.
func (l *Link) Close() error {
	err := l.Link.Close()
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.flush()
	return errors.Join(err, l.w.tell())
}
