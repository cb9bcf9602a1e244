package splitc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// differences are what rank 1 starts with in TestUnequal.
var differences = map[string]func(c *splitc.Config){
	"heap":  func(c *splitc.Config) { c.HeapSize *= 2 },
	"layer": func(c *splitc.Config) { c.Layer = splitc.Layers()[len(splitc.Layers())-1] },
	"registered variables": func(*splitc.Config) {
		extras++
		splitc.Static[int64](fmt.Sprint("unequal ", extras))
	},
}

// extras counts variables that only rank 1 has registered.
var extras int

// TestUnequal: ranks that start with different heaps, layers or registered variables do not
// start, and all of them are told why.
func TestUnequal(t *testing.T) {
	for name, differ := range differences {
		wants := []string{splitc.ErrUnequal.Error()}
		if name == "layer" { // both are named by all ranks
			wants = append(wants, "has layer "+splitc.Layers()[0], "has layer "+splitc.Layers()[len(splitc.Layers())-1])
		}
		for _, want := range wants {
			if err := unequal(splitc.Layers()[0], false, differ, want, 3); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestUnequalMembers: the same of ranks that share their membership in a job with other
// packages, over each layer. Those of different layers would not find each other, and ask for
// that first; all errors name the layers. Where layers compare the heaps as ranks meet, it is
// those that meet rank 1 first that are told; whose membership it is tells the others by ending
// it.
func TestUnequalMembers(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		for name, differ := range differences {
			want, told := splitc.ErrUnequal.Error(), 3
			if name == "heap" && (layer == "rdma" || layer == "shm") {
				told = 1
			}
			if name == "layer" && layer == splitc.Layers()[len(splitc.Layers())-1] {
				continue // there is no difference
			}
			if err := unequal(layer, true, differ, want, told); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// unequal starts three ranks, of which rank 1 differs, and wants that none starts and that the
// errors of so many say what is wanted. Rank 1 comes later than the others: what it registers
// they have not.
func unequal(layer string, shared bool, differ func(c *splitc.Config), want string, told int) error {
	p := newProgram(3, sim.Options{}, splitc.Config{Layer: layer, Config: job.Config{Timeout: 2 * time.Second}})
	ended := 0
	var all error
	for rank := range 3 {
		p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			cfg := p.cfg
			cfg.NIC, cfg.Rank = nic, rank
			if shared {
				m, err := job.Open(bg, &job.Config{Job: "shared", Rank: rank, Size: cfg.Size, NIC: nic}, job.Program{Name: "several", Version: 1})
				if err != nil {
					return err
				}
				defer m.Fail(errors.New("the test is over"))
				cfg.Member, cfg.NIC, cfg.Job, cfg.Rank, cfg.Size = m, nil, "", 0, 0
			}
			if rank == 1 {
				if err := p.Sleep(100 * time.Millisecond); err != nil {
					return err
				}
				differ(&cfg)
			}
			_, err := splitc.Start(bg, &cfg)
			for ended++; ended < 3; { // who ends its membership earlier is to blame for the others' end
				if err := p.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			if err == nil {
				return errors.New("it starts")
			}
			if strings.Contains(err.Error(), want) {
				told--
			}
			all = errors.Join(all, err)
			return nil
		})
	}
	if err := p.run(); err != nil || told > 0 {
		return fmt.Errorf("%d ranks more are to be told %q: %w (%w)", told, want, all, err)
	}
	return nil
}

// TestOtherVersion: a rank of another version of Split-C's messages, and those that meet it
// first, say so: rank 0, or all that come to it. Nobody starts.
func TestOtherVersion(t *testing.T) {
	for odd, hear := range map[int][]int{0: {1, 2}, 1: {0, 1}} {
		if err := otherVersion(odd, hear); err != nil {
			t.Errorf("rank %d: %v", odd, err)
		}
	}
}

// otherVersion starts three ranks, one of which has another version, and wants that some find that.
func otherVersion(odd int, hear []int) error {
	p := newProgram(3, sim.Options{}, splitc.Config{Layer: splitc.Layers()[0], Config: job.Config{Timeout: 2 * time.Second}})
	for rank := range 3 {
		p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			cfg := p.cfg
			cfg.NIC, cfg.Rank = nic, rank
			var err error
			class := splitc.ErrUnequal
			if rank == odd {
				class = job.ErrVersion
				_, err = job.Open(bg, &job.Config{Job: cfg.Job, Rank: rank, Size: cfg.Size, NIC: nic, Timeout: cfg.Timeout}, job.Program{Name: "Split-C", Version: 1 << 20})
			} else {
				_, err = splitc.Start(bg, &cfg)
			}
			switch {
			case err == nil:
				return errors.New("it starts")
			case slices.Contains(hear, rank) && !(errors.Is(err, class) && strings.Contains(err.Error(), "version")):
				return fmt.Errorf("%w, want %w", err, class)
			case !strings.Contains(err.Error(), "rank "):
				return fmt.Errorf("%w, want that it names a rank", err)
			}
			return nil
		})
	}
	return p.run()
}

// TestUnequalLayers: four members of one job, which have chosen three layers and start one after
// another, are all told of two ranks and their layers, on links that lose frames, too, and long
// before the time-out.
func TestUnequalLayers(t *testing.T) {
	const late, limit = time.Second, 3 * time.Second
	chosen := []string{"shm", "am", "shm", "reliable"}
	for _, loss := range []float64{0, 0.3} {
		p := newProgram(len(chosen), sim.Options{Loss: loss}, splitc.Config{Config: job.Config{Timeout: time.Minute}})
		for rank, layer := range chosen {
			p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
				m, err := job.Open(bg, &job.Config{Job: "shared", Rank: rank, Size: len(chosen), NIC: nic}, job.Program{Name: "several", Version: 1})
				if err != nil {
					return err
				}
				began := nic.Now()
				if err := p.Sleep(time.Duration(rank) * late); err != nil {
					return err
				}
				_, err = splitc.Start(bg, &splitc.Config{Member: m, Layer: layer, HeapSize: p.cfg.HeapSize, Config: job.Config{Timeout: p.cfg.Timeout}})
				took := time.Duration(nic.Now() - began)
				other := (rank + 1) % len(chosen)
				want := fmt.Sprintf("rank %d has layer %s, and rank %d has layer %s", rank, layer, other, chosen[other])
				if !errors.Is(err, splitc.ErrUnequal) || !strings.Contains(err.Error(), want) {
					err = fmt.Errorf("%w, want %q", err, want)
				} else if err = nil; took > time.Duration(len(chosen))*late+limit {
					err = fmt.Errorf("it is told after %v", took)
				}
				m.Fail(errors.New("the start has failed"))
				return err
			})
		}
		check(t, p.run())
	}
}
