package waits_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// segment is a simulated network with nodes of one stack, which communicate in a pattern.
type segment struct {
	*sim.World
	stations []*sim.Station
	nodes    int
	size     int      // bytes of a message
	names    []string // of endpoints
	ready    int      // nodes that are open
	warm     int      // nodes that have run the pattern once
	finished int      // nodes that have run it twice
	nics     []*vipl.NIC
	acks     uint64 // bare acknowledgements of all nodes
	began    int64  // when all were ready, or when the lone message was sent
	took     int64  // ns that a message took
	errs     []error
}

// times returns how often a pattern repeats what it measures.
func (s *segment) times() int {
	if s.size > 1<<20 {
		return 2 * s.nodes // each node sends twice
	}
	return 6
}

// pattern is what each node does.
type pattern struct {
	name  string
	nodes int
	run   func(s *segment, n node, rank int) error
}

var patterns = []pattern{
	{"lone", 2, lone},
	{"one way", 2, oneWay},
	{"ping-pong", 2, pingPong},
	{"ring", 3, ring},
}

// lone sends messages with long pauses. It measures until both ends go on.
func lone(s *segment, n node, rank int) error {
	for range 3 {
		if rank == 0 {
			if err := s.compute(n); err != nil {
				return err
			}
			s.began = s.Now()
			if err := n.send(1); err != nil {
				return err
			}
		} else if err := n.recv(0); err != nil {
			return err
		}
		s.took = max(s.took, s.Now()-s.began)
	}
	return nil
}

// oneWay sends one message after another.
func oneWay(s *segment, n node, rank int) error {
	for range s.times() {
		call := n.recv
		if rank == 0 {
			call = n.send
		}
		if err := call(1 - rank); err != nil {
			return err
		}
	}
	s.took = (s.Now() - s.began) / int64(s.times())
	return nil
}

// pingPong answers each message by another one.
func pingPong(s *segment, n node, rank int) error {
	for i := range s.times() {
		call := n.recv
		if rank == i%2 {
			call = n.send
		}
		if err := call(1 - rank); err != nil {
			return err
		}
	}
	s.took = (s.Now() - s.began) / int64(s.times())
	return nil
}

// answers answers many messages by one each. It counts the bare acknowledgements of the later ones.
func answers(s *segment, n node, rank int) error {
	const rounds = 16
	for i := range 2 * rounds {
		if i == rounds {
			s.acks -= s.bareAcks(rank)
		}
		call := n.recv
		if rank == i%2 {
			call = n.send
		}
		if err := call(1 - rank); err != nil {
			return err
		}
	}
	s.acks += s.bareAcks(rank)
	return nil
}

// bareAcks returns how many bare acknowledgements a node has sent.
func (s *segment) bareAcks(rank int) (acks uint64) {
	for _, vi := range s.nics[rank].Snapshot().VIs {
		acks += vi.BareAcks
	}
	return acks
}

// ring passes a message round.
func ring(s *segment, n node, rank int) error {
	for i := range s.times() {
		at := i % s.nodes
		var err error
		switch rank {
		case at:
			err = n.send((at + 1) % s.nodes)
		case (at + 1) % s.nodes:
			err = n.recv(at)
		}
		if err != nil {
			return err
		}
	}
	s.took = (s.Now() - s.began) / int64(s.times())
	return nil
}

func newSegment(opts sim.Options, nodes, size int) *segment {
	return &segment{World: sim.New(opts), nodes: nodes, size: size, names: make([]string, nodes), nics: make([]*vipl.NIC, nodes)}
}

// measure returns how long a message of a pattern takes.
func measure(opts sim.Options, tuning *reliability.Config, p pattern, size int, open func(s *segment, nic *vipl.NIC, rank int) (node, error)) (time.Duration, error) {
	s := newSegment(opts, p.nodes, size)
	err := s.measure(tuning, p, open)
	return time.Duration(s.took), err
}

// measure runs a pattern.
func (s *segment) measure(tuning *reliability.Config, p pattern, open func(s *segment, nic *vipl.NIC, rank int) (node, error)) error {
	for rank := range p.nodes {
		s.stations = append(s.stations, s.Station(fmt.Sprint("node", rank)))
	}
	for rank := range p.nodes {
		s.Go(fmt.Sprint("node", rank), func() {
			if err := s.node(tuning, p, rank, open); err != nil {
				s.errs = append(s.errs, fmt.Errorf("node %d: %w", rank, err))
			}
		})
	}
	err := s.Run()
	return errors.Join(append(s.errs, err)...)
}

// node is the program of a node.
func (s *segment) node(tuning *reliability.Config, p pattern, rank int, open func(s *segment, nic *vipl.NIC, rank int) (node, error)) error {
	nic, err := vipl.Open(background, &vipl.Config{Link: s.stations[rank], Seed: uint64(rank) + 1, WireOnly: true, Reliability: tuning, Logger: quiet})
	if err != nil {
		return err
	}
	defer nic.Close()
	s.nics[rank] = nic
	n, err := open(s, nic, rank)
	if err != nil {
		return err
	}
	if err := s.together(n, &s.ready); err != nil {
		return err
	}
	if err := p.run(s, n, rank); err != nil { // what it takes at first, for connections, does not count
		return err
	}
	if err := s.together(n, &s.warm); err != nil {
		return err
	}
	s.began, s.took = s.Now(), 0
	if err := p.run(s, n, rank); err != nil {
		return err
	}
	if err := s.together(n, &s.finished); err != nil {
		return err
	}
	return n.close()
}

// compute lets time pass for a program that drives the network now and then, as the service
// goroutine of a NIC does on a real link.
func (s *segment) compute(n node) error {
	for range 100 {
		n.poll()
		if err := s.Sleep(20 * time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// together counts a node, and serves the others until all are counted.
func (s *segment) together(n node, count *int) error {
	for *count++; *count < s.nodes; {
		n.poll()
		if err := s.Sleep(10 * time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// roundTrip is how long a short message and its answer take on the segment.
const roundTrip = 4*linkDelay + 200*time.Nanosecond

// linkDelay and linkSpeed are those of the segment: of each of the two lines to the switch and from it.
const (
	linkDelay = time.Microsecond / 2
	linkSpeed = 25e9
)

// TestNoMessageWaits holds that no message of any stack waits for a timer: a message takes at most
// 1.2 times as long as vipl's, and the round trip in which a receiver names the place of a long
// one. So it is with the usual delay of acknowledgements, and with one of a second. With -v the
// test logs the times.
func TestNoMessageWaits(t *testing.T) {
	need.Simulated(t)
	sizes, mtus := []int{1, 257, 5000, 16385, 65536}, []int{9000}
	if need.Full() {
		sizes = []int{1, 64, 128, 129, 256, 257, 1000, 1430, 1500, 4095, 4096, 4097, 5000, 8940, 16383, 16384, 16385, 32767, 32768, 32769,
			65023, 65024, 65025, 65480, 65535, 65536, 65537, 131071, 200_000, 1 << 20, 1<<20 + 1, 8 << 20}
		mtus = []int{1500, 9000, 65535}
	}
	for _, mtu := range mtus {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("MTU %d/%d bytes", mtu, size), func(t *testing.T) {
				noneWaits(t, sim.Options{MTU: mtu, Delay: linkDelay, Bandwidth: linkSpeed}, size)
			})
		}
	}
}

// noneWaits is TestNoMessageWaits for messages of a size.
func noneWaits(t *testing.T, opts sim.Options, size int) {
	base, err := measure(opts, nil, patterns[0], size, openVIPL)
	if err != nil {
		t.Fatal(err)
	}
	most := base*6/5 + roundTrip
	for _, stack := range stacks {
		row := ""
		for _, p := range patterns {
			for _, tuning := range []*reliability.Config{nil, {AckDelay: int64(time.Second)}} {
				took, err := measure(opts, tuning, p, size, stack.open)
				switch {
				case err != nil:
					t.Fatalf("%s, %s: %v", stack.name, p.name, err)
				case took > most:
					t.Errorf("%s, %s: a message takes %v, over the limit of %v: vipl's takes %v (delay of acknowledgements: %+v)", stack.name, p.name, took, most, base, tuning)
				}
				if tuning == nil {
					row += fmt.Sprintf(" %s %v", p.name, took)
				}
			}
		}
		t.Logf("%-18s%s", stack.name, row)
	}
}

// TestAnswersAcknowledge: where each message is answered, the answers carry the acknowledgements, also
// of messages whose senders wait for them. A bare acknowledgement would wake the peer once more.
func TestAnswersAcknowledge(t *testing.T) {
	need.Simulated(t)
	for _, size := range []int{1, 257, 1000, 5000} {
		for _, stack := range stacks[:6] {
			s := newSegment(sim.Options{MTU: 1500, Long: sim.LongWhole, Delay: linkDelay, Bandwidth: linkSpeed}, 2, size)
			if err := s.measure(nil, pattern{run: answers, nodes: 2}, stack.open); err != nil {
				t.Fatalf("%s, %d bytes: %v", stack.name, size, err)
			}
			if s.acks > 1 { // of the last message
				t.Errorf("%s, %d bytes: %d bare acknowledgements of 16 messages", stack.name, size, s.acks)
			}
		}
	}
}
