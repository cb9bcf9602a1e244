package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What a rank of the role cut finds in its environment.
const (
	cutEndEnv     = "CUT_END"     // the file whose existence ends it
	cutTimeoutEnv = "CUT_TIMEOUT" // its PeerTimeout
)

// cutSize is the length of a rank's vector in elements of eight bytes: several
// frames of an MTU of 9000.
const cutSize = 5000

// cutRole reduces vectors, says each round that is done, and ends well when the
// file is there, or with the failure of a rank that it names.
func cutRole(ctx context.Context) (err error) {
	cfg := config()
	if cfg.PeerTimeout, err = time.ParseDuration(os.Getenv(cutTimeoutEnv)); err != nil {
		return err
	}
	comm, err := mplite.Init(ctx, cfg)
	if err != nil {
		return err
	}
	err = reduceRounds(ctx, comm)
	var dead *mplite.RankError
	if errors.As(err, &dead) {
		fmt.Fprintln(os.Stderr, err)
		fmt.Printf("rank %d failed, silent: %t\n", dead.Rank, errors.Is(err, vipl.ErrUnreachable))
		comm.Finalize(ctx) // which fails too: not the matter here
		return nil
	}
	if err != nil {
		return err
	}
	return comm.Finalize(ctx)
}

func reduceRounds(ctx context.Context, comm *mplite.Comm) error {
	send, sum := make([]int64, cutSize), make([]int64, cutSize)
	for round := int64(1); ; round++ {
		for i := range send {
			send[i] = round * int64(i+comm.Rank())
		}
		if _, err := os.Stat(os.Getenv(cutEndEnv)); comm.Rank() == 0 && err == nil {
			send[0] = 1 << 40 // all ranks learn that this is the last round
		}
		if err := mplite.Allreduce(ctx, comm, send, sum, mplite.Sum[int64]()); err != nil {
			return err
		}
		n := int64(comm.Size())
		for i := int64(1); i < cutSize; i++ {
			if want := round * (n*i + n*(n-1)/2); sum[i] != want {
				return fmt.Errorf("round %d, element %d is %d, want %d", round, i, sum[i], want)
			}
		}
		fmt.Println("round", round)
		if sum[0] >= 1<<40 {
			return nil
		}
	}
}

// sent returns how many frames the ranks' interfaces have sent.
func sent(t *testing.T, l *lab.Lab) (n uint64) {
	t.Helper()
	for rank := range l.Size() {
		err := l.Exec(rank, func() error {
			link, err := netlink.LinkByName(lab.Interface)
			if err == nil {
				n += link.Attrs().Statistics.TxPackets
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// carrier reports whether a rank's interface has one.
func carrier(t *testing.T, l *lab.Lab, rank int) (has bool) {
	t.Helper()
	err := l.Exec(rank, func() error {
		i, err := net.InterfaceByName(lab.Interface)
		has = err == nil && i.Flags&net.FlagRunning != 0
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return has
}

// hearRound passes over what a rank has said and returns when it has done one
// more round.
func hearRound(t *testing.T, p *player) {
	t.Helper()
	p.lines.skip()
	p.line(t)
	p.line(t) // the first may have been on its way
}

// TestCutLinks: a job survives a link that flaps, a partition and a path that no
// longer carries long frames, each as long as it takes to have frames sent again,
// and nothing that it computes is wrong.
func TestCutLinks(t *testing.T) {
	l := newLab(t, lab.Config{N: 4, MTU: 9000, Topology: lab.Bridge, Narrow: true})
	end := filepath.Join(t.TempDir(), "end")
	ranks := play(t, l, "cut", cutEndEnv+"="+end, cutTimeoutEnv+"=1m")
	t.Cleanup(func() {
		for _, p := range ranks {
			p.Signal(unix.SIGTERM)
			<-p.Done()
			if t.Failed() {
				t.Logf("rank %d said: %s", p.Rank(), &p.stderr)
			}
		}
	})
	const again = 8 // frames that ranks send into nothing; a connection gives up after 16 of its own
	for _, cut := range []lab.Cut{
		{Kind: lab.Flap, Groups: [][]int{{1, 2}}},
		{Kind: lab.Partition, Groups: [][]int{{0, 1}, {2, 3}}},
		{Kind: lab.MTUDrop, MTU: 1500},
		{Kind: lab.Partition, Groups: [][]int{{3}}},
		{Kind: lab.Flap, Groups: [][]int{{0, 1, 2, 3}}},
	} {
		hearRound(t, ranks[3])
		if err := l.Cut(cut); err != nil {
			t.Fatal(err)
		}
		for before := sent(t, l); ; runtime.Gosched() {
			if cut.Kind == lab.Flap && !carrier(t, l, cut.Groups[0][0]) || sent(t, l) >= before+again {
				break
			}
			select {
			case <-ranks[3].Done():
				t.Fatalf("%v %v: rank 3 ended with code %d and said %q", cut.Kind, cut, ranks[3].Code(), &ranks[3].stderr)
			default:
			}
		}
		if err := l.Cut(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%v %v is over", cut.Kind, cut)
		for _, p := range ranks {
			hearRound(t, p)
		}
	}
	if err := os.WriteFile(end, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, p := range ranks {
		p.end(t)
	}
}

// TestPartitionedForGood: ranks that a partition keeps apart for longer than the
// PeerTimeout end with the error that names a silent rank of the other side.
func TestPartitionedForGood(t *testing.T) {
	l := newLab(t, lab.Config{N: 4, MTU: 9000, Topology: lab.Bridge})
	ranks := play(t, l, "cut", cutEndEnv+"=/nonexistent", cutTimeoutEnv+"=1s")
	hearRound(t, ranks[0])
	if err := l.Cut(lab.Cut{Kind: lab.Partition, Groups: [][]int{{0, 1}, {2, 3}}}); err != nil {
		t.Fatal(err)
	}
	for rank, p := range ranks {
		var dead int
		var silent bool
		for line := p.line(t); ; line = p.line(t) {
			if n, _ := fmt.Sscanf(line, "rank %d failed, silent: %t", &dead, &silent); n == 2 {
				break
			}
		}
		if dead/2 == rank/2 && silent { // its own side may end first, and say so
			t.Errorf("rank %d says that rank %d is silent, which it can hear", rank, dead)
		}
		p.end(t)
	}
}

// TestLabCuts: an example that bobnet lab runs survives the links that it cuts.
func TestLabCuts(t *testing.T) {
	needLab(t)
	dir := commands(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "bobnet"), "lab", "-n", "2", "--mtu", "9000",
		"--partition", "0@20ms+100ms", "--flap", "1@200ms+100ms", "--mtu-drop", "1500@400ms+100ms", "--flap", "0@600ms+50ms",
		"--", filepath.Join(dir, "pingpong"), "-n", "50000").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkPingpong(t, "", string(out))
}
