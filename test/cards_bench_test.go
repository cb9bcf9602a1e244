package test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vmmc"

	endpoints "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
)

const (
	benchMTU   = 9000
	benchBulk  = 64 << 10 // bytes of a bulk message
	benchPosts = 4        // parts of the segment
	benchTotal = 32 << 20 // bytes that a measurement of bandwidth moves
	rawWindow  = 64       // frames
	benchFew   = 100      // times fewer of all that through a switch
)

// BenchmarkCards prints what messages cost on cards at both ends of a cable between two network
// namespaces, against raw frames over the same cable: am2/raw is AM-II's one-way time of a short
// message over that of the smallest frame, to be 3 at the most; bulk/raw its bandwidth with
// messages of 64 KiB over that of full frames, to be 0.4 at the least; vmmc/am2 the one-way time
// of 64 bytes that VMMC writes over that of AM-II's short message, to be 1.2 at the most.
// Through a switch they have no limits, and measurements are shorter: its two ports wait for the
// processors that both hosts poll on. It needs two processors that nobody else uses, and
//
//	go test ./test -run '^$' -bench Cards -benchtime 20000x
func BenchmarkCards(b *testing.B) {
	b.Run("cable", func(b *testing.B) {
		veth := vethtest.New(b, benchMTU)
		measureCards(b, &cabling{hosts: [2]*vethtest.Pair{veth, veth}, raw: veth, trips: b.N, total: benchTotal})
	})
	b.Run("switch", func(b *testing.B) {
		c := &cabling{hosts: [2]*vethtest.Pair{vethtest.New(b, benchMTU), vethtest.New(b, benchMTU)}, raw: vethtest.New(b, benchMTU),
			trips: max(b.N/benchFew, min(b.N, benchFew)), total: benchTotal / benchFew / benchBulk * benchBulk}
		c.turns = [2]myrinet.Route{{1}, {-1}}
		c.hub(b)
		measureCards(b, c)
	})
}

// cabling is what joins two hosts: side 0 of one pair, and side 1 of another or the same.
type cabling struct {
	hosts [2]*vethtest.Pair
	turns [2]myrinet.Route // from each
	raw   *vethtest.Pair
	trips int            // of a measurement of time
	total int            // bytes that one of bandwidth moves
	opens []func() error // closes what a measurement has opened
}

// close closes what a measurement has opened, the last first.
func (c *cabling) close() {
	for i := len(c.opens) - 1; i >= 0; i-- {
		_ = c.opens[i]() // what was measured has ended
	}
	c.opens = nil
}

// hub puts a switch between the hosts.
func (c *cabling) hub(b *testing.B) {
	ports := make([]transport.Link, 2)
	for i := range ports {
		if err := c.hosts[i].In(1-i, func() (err error) { ports[i], err = station.OpenCable(b.Context(), vethtest.Name, false); return err }); err != nil {
			b.Fatal(err)
		}
	}
	sw, err := hardware.NewLiveSwitch("s", ports, myrinet.LiveOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var drivers sync.WaitGroup
	for i := range ports {
		drivers.Go(func() { _ = sw.Drive(i) }) // it ends when the link is closed
	}
	b.Cleanup(func() {
		for _, l := range ports {
			l.Close()
		}
		drivers.Wait()
	})
}

func measureCards(b *testing.B, c *cabling) {
	raw, rawBytes := c.measureRaw(b)
	am, amBytes := c.measureAM(b)
	written := c.measureVMMC(b)
	for _, m := range []struct {
		value float64
		unit  string
	}{{raw, "raw-ns"}, {am, "am2-ns"}, {written, "vmmc-ns"}, {rawBytes / 1e6, "raw-MB/s"}, {amBytes / 1e6, "am2-MB/s"},
		{am / raw, "am2/raw"}, {amBytes / rawBytes, "bulk/raw"}, {written / am, "vmmc/am2"}, {0, "ns/op"}} {
		b.ReportMetric(m.value, m.unit)
	}
}

// oneWay returns the median of half the time of round trips.
func (c *cabling) oneWay(b *testing.B, trip func() error) float64 {
	b.Helper()
	samples := make([]int64, c.trips)
	for i := range samples {
		start := time.Now()
		if err := trip(); err != nil {
			b.Fatal(err)
		}
		samples[i] = int64(time.Since(start))
	}
	slices.Sort(samples)
	return float64(samples[len(samples)/2]) / 2
}

// rawEnds are links at both ends of a cable, without cards.
type rawEnds struct {
	links [2]*ring.Link
	stop  atomic.Bool
}

// frames takes what has come to a side, and waits for it without pause: for a while, because
// the kernel may need the processor.
func (r *rawEnds) frames(side int, views [][]byte) (int, error) {
	l := r.links[side]
	for spins := 1; !l.Ready(); spins++ {
		if r.stop.Load() {
			return 0, errors.New("it is over")
		}
		if spins%(1<<14) == 0 {
			if err := l.Wait(l.Now() + int64(time.Millisecond)); err != nil {
				return 0, err
			}
		}
	}
	return l.Recv(views)
}

// frame returns a frame from a side to the other one.
func (r *rawEnds) frame(from int, data []byte) []transport.Frame {
	a, b := r.links[from].Info(), r.links[1-from].Info()
	return []transport.Frame{{Head: linktest.NewFrame(a, b, b.Ports.Lo, nil), Body: [][]byte{data}}}
}

// measureRaw returns the one-way time and the bandwidth of frames.
func (c *cabling) measureRaw(b *testing.B) (ns, bytes float64) {
	r := &rawEnds{}
	for side := range r.links {
		err := c.raw.In(side, func() (err error) {
			r.links[side], err = ring.Open(b.Context(), &ring.Config{Interface: vethtest.Name, XDP: ring.Off, Long: ring.Off})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		defer r.links[side].Close()
	}
	const size = benchMTU + ethertype.EthernetSize - ethertype.HeaderSize
	pongs, frames := c.trips, c.total/size
	served := make(chan error, 1)
	go func() { served <- r.serve(pongs, frames, size) }()
	ping, views := r.frame(0, []byte{0, 0}), make([][]byte, 1)
	ns = c.oneWay(b, func() error {
		_, err := r.links[0].Send(ping)
		if err == nil {
			_, err = r.frames(0, views)
		}
		return err
	})
	start := time.Now()
	err := r.stream(frames, size)
	bytes = float64(frames*size) / time.Since(start).Seconds()
	r.stop.Store(err != nil)
	if err := errors.Join(err, <-served); err != nil {
		b.Fatal(err)
	}
	return ns, bytes
}

// serve answers frames one by one, and then takes others and says how many so far.
func (r *rawEnds) serve(pongs, frames, size int) error {
	views := make([][]byte, rawWindow)
	pong := r.frame(1, []byte{0, 0})
	for range pongs {
		if _, err := r.frames(1, views[:1]); err != nil {
			return err
		}
		if _, err := r.links[1].Send(pong); err != nil {
			return err
		}
	}
	data := make([]byte, size)
	ack := make([]byte, 8)
	for got, told := 0, 0; got < frames; {
		n, err := r.frames(1, views)
		if err != nil {
			return err
		}
		for _, v := range views[:n] {
			copy(data, v[ethertype.HeaderSize:])
		}
		if got += n; got-told >= rawWindow/4 || got == frames {
			binary.BigEndian.PutUint64(ack, uint64(got))
			if _, err := r.links[1].Send(r.frame(1, ack)); err != nil {
				return err
			}
			told = got
		}
	}
	return nil
}

// stream sends frames, of which a window may be under way.
func (r *rawEnds) stream(frames, size int) error {
	batch := make([]transport.Frame, rawWindow/2)
	for i := range batch {
		batch[i] = r.frame(0, make([]byte, size))[0]
	}
	views := make([][]byte, rawWindow)
	for sent, acked := 0, 0; acked < frames; {
		if room := min(rawWindow-(sent-acked), frames-sent, len(batch)); room > 0 {
			n, err := r.links[0].Send(batch[:room])
			if err != nil {
				return err
			}
			sent += n
		}
		if sent-acked < rawWindow && sent < frames {
			continue
		}
		n, err := r.frames(0, views)
		if err != nil {
			return err
		}
		acked = int(binary.BigEndian.Uint64(views[n-1][ethertype.HeaderSize:]))
	}
	return nil
}

// The handlers of the benchmark.
const (
	hBenchAsk = 1 + iota
	hBenchTake
	hBenchAnswer
)

// benchEnd is an endpoint on a card.
type benchEnd struct {
	node   *endpoint.Node
	bundle *endpoint.Bundle
	ep     *endpoint.Endpoint
	got    int // answers
}

// amEnds opens endpoints on cards at both hosts.
func (c *cabling) amEnds(b *testing.B) (ends [2]*benchEnd) {
	for side := range ends {
		var card *endpoints.Card
		err := c.hosts[side].In(side, func() (err error) {
			card, err = endpoints.Open(b.Context(), &endpoints.Config{Interface: vethtest.Name,
				Spin: true, Routes: []myrinet.HostRoute{{To: vethtest.MACs[1-side], Turns: c.turns[side]}}})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		c.opens = append(c.opens, card.Close)
		e := &benchEnd{}
		if e.node, err = endpoint.Open(b.Context(), &endpoint.Config{Card: card}); err == nil {
			e.bundle, err = e.node.NewBundle(endpoint.Sequential)
		}
		if err == nil {
			e.ep, err = e.bundle.NewEndpoint()
		}
		if err != nil {
			b.Fatal(err)
		}
		c.opens = append(c.opens, e.node.Close)
		e.ep.SetTag(endpoint.TagAll)
		ends[side] = e
	}
	return ends
}

// measureAM returns the one-way time of AM-II's short messages and its bandwidth.
func (c *cabling) measureAM(b *testing.B) (ns, bytes float64) {
	defer c.close()
	ends := c.amEnds(b)
	client, server := ends[0], ends[1]
	answer := func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hBenchAnswer) }
	err := errors.Join(server.ep.SetSegment(make([]byte, benchPosts*benchBulk)), server.ep.SetHandler(hBenchAsk, answer), server.ep.SetHandler(hBenchTake, answer),
		client.ep.SetHandler(hBenchAnswer, func(endpoint.Token, []uint32, []byte) { client.got++ }), client.ep.Map(0, server.ep.Name(), endpoint.TagAll))
	if err != nil {
		b.Fatal(err)
	}
	var over atomic.Bool
	var serving sync.WaitGroup
	serving.Go(func() {
		for err := error(nil); err == nil && !over.Load(); {
			_, err = server.bundle.Poll()
		}
	})
	defer serving.Wait()
	defer over.Store(true)
	ns = c.oneWay(b, func() error {
		if err := client.ep.Request(b.Context(), 0, hBenchAsk, 1); err != nil {
			return err
		}
		return client.until(client.got + 1)
	})
	client.got = 0
	start := time.Now()
	if err := client.stream(c.total / benchBulk); err != nil {
		b.Fatal(err)
	}
	return ns, float64(c.total) / time.Since(start).Seconds()
}

// until polls until so many answers have come.
func (e *benchEnd) until(answers int) error {
	for e.got < answers {
		if _, err := e.bundle.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// stream sends bulk messages, as many at a time as the endpoint takes.
func (e *benchEnd) stream(n int) error {
	data := make([]byte, benchBulk)
	for i := 0; i < n; {
		err := e.ep.RequestBulkAsync(0, hBenchTake, data, uint64(i%benchPosts*benchBulk))
		if err == nil {
			i++
		} else if !errors.Is(err, endpoint.ErrInUse) {
			return err
		} else if _, err := e.bundle.Poll(); err != nil {
			return err
		}
	}
	return e.until(n)
}

// benchBoard is a process of VMMC that writes to a board of the other one.
type benchBoard struct {
	p     *vmmc.Process
	board []byte
	to    *vmmc.Import
	src   []byte
}

// measureVMMC returns the one-way time of 64 bytes that VMMC writes.
func (c *cabling) measureVMMC(b *testing.B) float64 {
	defer c.close()
	var ends [2]*benchBoard
	for side := range ends {
		var host *vmmccard.Card
		err := c.hosts[side].In(side, func() (err error) {
			host, err = vmmccard.Open(b.Context(), &vmmccard.Config{Interface: vethtest.Name,
				Routes: []myrinet.HostRoute{{To: vethtest.MACs[1-side], Turns: c.turns[side]}}})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		c.opens = append(c.opens, host.Close)
		e := &benchBoard{board: make([]byte, 64), src: make([]byte, 64)}
		if e.p, err = vmmc.Open(b.Context(), &vmmc.Config{Card: host, Process: uint32(side)}); err == nil {
			_, err = e.p.Export(e.board, 1, vmmc.Everybody, nil)
		}
		if err != nil {
			b.Fatal(err)
		}
		c.opens = append(c.opens, e.p.Close)
		ends[side] = e
	}
	for side, e := range ends {
		var err error
		if e.to, err = e.p.Import(b.Context(), vmmc.Name{Process: uint32(1 - side), ID: 1}); err != nil {
			b.Fatal(err)
		}
	}
	trips := uint32(c.trips)
	served := make(chan error, 1)
	go func() {
		var err error
		for n := uint32(1); n <= trips && err == nil; n++ {
			if err = ends[1].await(b.Context(), n); err == nil {
				err = ends[1].write(b.Context(), n)
			}
		}
		served <- err
	}()
	n := uint32(0)
	ns := c.oneWay(b, func() error {
		n++
		if err := ends[0].write(b.Context(), n); err != nil {
			return err
		}
		return ends[0].await(b.Context(), n)
	})
	if err := <-served; err != nil {
		b.Fatal(fmt.Errorf("the other side: %w", err))
	}
	return ns
}

// write writes a number behind other bytes.
func (e *benchBoard) write(ctx context.Context, n uint32) error {
	binary.NativeEndian.PutUint32(e.src[len(e.src)-vmmc.WordSize:], n)
	return e.p.SendMsg(ctx, e.src, e.to.Addr())
}

// await waits for a number without pause.
func (e *benchBoard) await(ctx context.Context, n uint32) error {
	word := vmmc.Word(e.board, len(e.board)-vmmc.WordSize)
	for seen := atomic.LoadUint32(word); seen != n; {
		var err error
		if seen, err = e.p.Spin(ctx, word, seen); err != nil {
			return err
		}
	}
	return nil
}
