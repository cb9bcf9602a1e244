package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// collJob runs the ranks of a measurement in a simulated segment and returns what rank 0 prints.
func collJob(ranks int, args []string) (out bytes.Buffer, err error) {
	w := sim.New(sim.Options{Seed: 1})
	errs := make([]error, ranks)
	for rank := range ranks {
		link := w.Station(fmt.Sprint("rank ", rank))
		w.Go(fmt.Sprint("rank ", rank), func() {
			errs[rank] = func() error {
				nic, err := vipl.Open(context.Background(), &vipl.Config{Link: link, Seed: uint64(rank + 1)})
				if err != nil {
					return err
				}
				defer nic.Close()
				comm, err := mplite.Init(context.Background(), &mplite.Config{Config: job.Config{Job: "collectives", Rank: rank, Size: ranks, NIC: nic}})
				if err != nil {
					return err
				}
				if err := RunCollectives(context.Background(), comm, args, &out); err != nil {
					return err
				}
				return comm.Finalize(context.Background())
			}()
		})
	}
	return out, errors.Join(w.Run(), errors.Join(errs...))
}

// TestCollectiveRanks: the ranks call every collective with each size, and rank 0 prints what the
// plan expects, in its order.
func TestCollectiveRanks(t *testing.T) {
	plan := CollPlan{Sizes: []int{8, 40_000}, Sample: 1}.withDefaults()
	out, err := collJob(3, []string{"1", strings.Join(plan.Names, ","), "8,40000"})
	if err != nil {
		t.Fatal(err)
	}
	r := plan.run(CollPair, 3, 1500, nil)
	if err := r.read(&out); err != nil {
		t.Fatal(err)
	}
	records := collMedians([]*collRun{r})
	if want := 2 * (1 + 2*(len(collectives)-1)); len(records) != want {
		t.Fatalf("%d records, want %d", len(records), want)
	}
	for _, rec := range records {
		if rec.Micros <= 0 || rec.Topology != CollBridge || rec.Rounds != 1 {
			t.Errorf("record %+v", rec)
		}
	}
	if err := r.read(&out); err == nil {
		t.Error("a run without output is taken")
	}
	if err := r.read(strings.NewReader(`{"collective":"scan","mode":"loop","size":8,"us":1}`)); err == nil || !strings.Contains(err.Error(), "instead of barrier") {
		t.Errorf("a run of other calls: %v", err)
	}
}

// TestCollectiveArguments: a rank whose arguments are no measurement says so.
func TestCollectiveArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"x", "scan", "8"}, {"0", "scan", "8"}, {"1", "sort", "8"}, {"1", "scan", ""}, {"1", "scan", "0"}} {
		if err := RunCollectives(t.Context(), nil, args, nil); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestCollectivesPlan(t *testing.T) {
	for _, p := range []CollPlan{{Names: []string{"sort"}}, {Sizes: []int{12}}, {Sizes: []int{4}}, {Sizes: []int{MaxSize + collElem}}} {
		if err := p.Validate(); !errors.Is(err, ErrPlan) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := (CollPlan{}).Validate(); err != nil {
		t.Error(err)
	}
	runs := CollPlan{}.withDefaults().runs(CollConfig{MPI: &MPI{open: true}})
	if len(runs) != 12 || runs[1].records[0].Stack != "openmpi" || runs[10].records[0].Topology != CollHost || runs[2].records[0].Topology != CollBridge {
		t.Errorf("%d runs", len(runs))
	}
}

const wantCollectives = `2 ranks, pair, MTU 1500, loop: us of a call, and the ratio (geometric mean 1.00)
  collective  8 B        1 KiB   
     barrier  4.0  2.00      -   
        scan  5.0  0.50      -   
      exscan    -          6.0  -

mpich is ahead in 1 of 2 calls; geometric mean of all ratios 1.00
  2.00  barrier  0 B  2 ranks, pair, MTU 1500, loop  4.0 us  2.0 us
`

func TestWriteCollectives(t *testing.T) {
	of := func(stack, name string, size int, us ...float64) *collRun {
		r := CollRecord{Stack: stack, Collective: name, Mode: CollLoop, Topology: CollPair, Ranks: 2, MTU: 1500, Size: size}
		return &collRun{records: []CollRecord{r}, times: [][]float64{us}}
	}
	records := collMedians([]*collRun{
		of("mplite", "barrier", 0, 9, 1, 4), of("mplite", "scan", 8, 5), of("mplite", "exscan", 1024, 6), of("mplite", "bcast", 8),
		of("mpich", "barrier", 0, 2), of("mpich", "scan", 8, 10),
	})
	var text strings.Builder
	if err := WriteCollectives(&text, records); err != nil {
		t.Fatal(err)
	}
	if text.String() != wantCollectives {
		t.Errorf("the tables are\n%s\nwant\n%s", text.String(), wantCollectives)
	}
	text.Reset()
	records = collMedians([]*collRun{of("mplite", "scan", 8, 5)})
	if err := WriteCollectives(&text, records); err != nil || strings.Contains(text.String(), "ahead") {
		t.Errorf("a record of mplite alone: %v\n%s", err, text.String())
	}
	text.Reset()
	if err := WriteCollectives(&text, nil); err != nil || text.Len() > 0 {
		t.Errorf("no records: %v %q", err, text.String())
	}
}

// TestBuildMPI builds the C program.
func TestBuildMPI(t *testing.T) {
	if _, err := BuildMPI(t.Context(), t.TempDir()); err != nil {
		need.Skip(t, "%v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := BuildMPI(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "apt-get install mpich libmpich-dev") {
		t.Errorf("without an MPI library BuildMPI returns %v", err)
	}
}
