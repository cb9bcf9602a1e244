package test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

var faultSeed = flag.Uint64("faultseed", 0, "seed of TestFaultyVeth; 0 is a new one")

const (
	faultSeedEnv  = "BOBNET_TEST_SEED"
	faultTotalEnv = "BOBNET_TEST_TOTAL"
	faultRate     = 0.02
	faultLargest  = 1 << 20 // message, bytes
)

// damage is what a rank of TestFaultyVeth has gone through.
type damage struct {
	Faults, Retransmits, BadCRC, Duplicates uint64
}

// TestFaultyVeth wants 100 MB intact both ways at once between two processes
// on a real veth on which 2 % of the frames are lost, 2 % duplicated, 2 %
// overtaken and 2 % corrupted.
func TestFaultyVeth(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it takes a few seconds")
	}
	seed := *faultSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -faultseed %d", seed)
	for _, tt := range []struct {
		mtu   int
		total int // bytes each way
	}{{9000, 100_000_000}, {1500, 10_000_000}} {
		t.Run(fmt.Sprintf("MTU%d", tt.mtu), func(t *testing.T) {
			l := newLab(t, lab.Config{N: 2, MTU: tt.mtu})
			ranks := play(t, l, "fault", fmt.Sprintf("%s=%d", faultSeedEnv, seed), fmt.Sprintf("%s=%d", faultTotalEnv, tt.total))
			for _, p := range ranks {
				var d damage
				if err := json.Unmarshal([]byte(p.line(t)), &d); err != nil {
					t.Fatal(err)
				}
				t.Logf("rank %d: %+v", p.Rank(), d)
				// Were these 0, nothing would have been tested.
				if d.Faults == 0 || d.Retransmits == 0 || d.BadCRC == 0 || d.Duplicates == 0 {
					t.Errorf("rank %d has seen no faults of some kind: %+v", p.Rank(), d)
				}
			}
			for _, p := range ranks {
				p.end(t)
			}
		})
	}
}

// faultRole is a rank of TestFaultyVeth.
func faultRole(ctx context.Context) error {
	seed, err := strconv.ParseUint(os.Getenv(faultSeedEnv), 10, 64)
	if err != nil {
		return err
	}
	total, err := strconv.Atoi(os.Getenv(faultTotalEnv))
	if err != nil {
		return err
	}
	cfg := config()
	veth, err := ring.Open(ctx, &ring.Config{Interface: cfg.Interface})
	if err != nil {
		return err
	}
	link := fault.New(veth, fault.Options{Seed: seed + uint64(cfg.Rank), Drop: faultRate, Dup: faultRate, Reorder: faultRate, Corrupt: faultRate})
	if cfg.NIC, err = vipl.Open(ctx, &vipl.Config{Link: link}); err != nil {
		return err
	}
	defer cfg.NIC.Close()
	comm, err := mplite.Init(ctx, cfg)
	if err != nil {
		return err
	}
	peer := 1 - cfg.Rank
	sent := make(chan error, 1)
	go func() { sent <- newTraffic(seed, cfg.Rank, total).send(ctx, comm, peer) }()
	if err := newTraffic(seed, peer, total).receive(ctx, comm, peer); err != nil {
		return err
	}
	if err := <-sent; err != nil {
		return err
	}
	if err := comm.Finalize(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(damageOf(cfg.NIC.Snapshot()))
}

func damageOf(s vipl.Snapshot) damage {
	return damage{
		Faults:      s.Link.Faults,
		Retransmits: s.Closed.Retransmits,
		BadCRC:      s.Dropped[drops.CRC],
		Duplicates:  s.Dropped[drops.Duplicate],
	}
}

// traffic is the messages of one sender: both sides can make them. Sizes are
// spread evenly over orders of magnitude.
type traffic struct {
	sizes   *rand.Rand
	content *rand.ChaCha8
	left    int
	buf     [faultLargest]byte
}

func newTraffic(seed uint64, sender, total int) *traffic {
	key := [32]byte{byte(sender)}
	for i := range 8 {
		key[1+i] = byte(seed >> (8 * i))
	}
	return &traffic{sizes: rand.New(rand.NewPCG(seed, uint64(sender))), content: rand.NewChaCha8(key), left: total}
}

// next returns the next message. It is valid until the next call.
func (m *traffic) next() []byte {
	size := min(m.left, int(math.Pow(faultLargest, m.sizes.Float64())))
	m.left -= size
	m.content.Read(m.buf[:size]) // never fails
	return m.buf[:size]
}

func (m *traffic) send(ctx context.Context, comm *mplite.Comm, dst int) error {
	for tag := 0; m.left > 0; tag++ {
		if err := comm.Send(ctx, m.next(), dst, tag); err != nil {
			return fmt.Errorf("message %d: %w", tag, err)
		}
	}
	return nil
}

func (m *traffic) receive(ctx context.Context, comm *mplite.Comm, src int) error {
	buf := make([]byte, faultLargest)
	for number := 0; m.left > 0; number++ {
		st, err := comm.Recv(ctx, buf, src, mplite.AnyTag)
		if err != nil {
			return fmt.Errorf("message %d: %w", number, err)
		}
		if want := m.next(); st.Tag != number || !bytes.Equal(buf[:st.Count], want) {
			return fmt.Errorf("message %d of %d bytes came as number %d with %d bytes, and not as it was sent", number, len(want), st.Tag, st.Count)
		}
	}
	return nil
}
