package em3d

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"github.com/bobnet-go/bobnet/splitc"
)

// The phases of a run.
const (
	move = iota
	tell
	waiting
)

// Run computes all steps on all ranks of w, all of which must call it. Rank 0 gets the report and,
// if keep is set, the values of both fields of all ranks, in the order of ranks.
func Run(ctx context.Context, w *splitc.World, c Config, keep bool) (rep *report.Report, values [fields][]float64, err error) {
	if err := c.Check(); err != nil {
		return nil, values, err
	}
	r, err := newRun(ctx, w, c)
	if err != nil {
		return nil, values, err
	}
	if err := r.steps(ctx); err != nil {
		return nil, values, err
	}
	rep = report.New("em3d", c.size(), w.Layer(), w.Procs())
	if err := spmd.Collect(ctx, w, rep, r.timer); err != nil {
		return nil, values, err
	}
	for f := range fields {
		if keep {
			values[f] = make([]float64, w.Procs()*c.Particles)
			if err := splitc.AllGather(ctx, w, r.values[f][:c.Particles], values[f]); err != nil {
				return nil, values, err
			}
		}
		if err := splitc.AllSpreadFree(ctx, w, r.arrays[f]); err != nil {
			return nil, values, err
		}
	}
	return rep, values, nil
}

// run is a rank's part of the computation in a Split-C program.
type run struct {
	*part
	w      *splitc.World
	timer  *report.Timer
	arrays [fields]splitc.Array[float64] // the values of each field that a rank has, including copies
	values [fields][]float64             // this rank's part of arrays
	paired bool                          // there are two ranks, and each needs values of the other in each half of a step
	under  int                           // bytes of stores in flight to this rank, if paired
}

func newRun(ctx context.Context, w *splitc.World, c Config) (*run, error) {
	r := &run{part: newPart(c, w.Procs(), w.MyProc()), w: w}
	r.timer = report.NewTimer(report.Phase{Name: "fields"}, report.Phase{Name: "stores"}, report.Phase{Name: "stores of all", Waits: true})
	for f := range fields {
		most, err := splitc.ReduceToAll(ctx, w, r.known(f), splitc.Max[int]())
		if err != nil {
			return nil, err
		}
		if r.arrays[f], err = splitc.AllSpreadMalloc[float64](ctx, w, w.Procs(), most); err != nil {
			return nil, err
		}
		r.values[f] = r.arrays[f].Local(w)
		r.fill(r.values[f], f)
	}
	r.paired = r.mutual()
	return r, nil
}

// steps is the measured part of Run, after the ranks have exchanged the initial values.
func (r *run) steps(ctx context.Context) error {
	for f := range fields {
		if err := r.store(ctx, f); err != nil {
			return err
		}
	}
	if err := r.w.AllStoreSync(ctx); err != nil {
		return err
	}
	r.timer.Traffic = report.Traffic{}
	for range r.Steps {
		for f := range fields {
			if err := r.step(ctx, f); err != nil {
				return err
			}
		}
	}
	r.timer.Enter(waiting)
	err := r.w.AllStoreSync(ctx)
	r.timer.Stop()
	return err
}

// step computes a field: first the contributions of this rank's own values, while the stores of the
// other field are in flight, and then the contributions of the arrived copies.
func (r *run) step(ctx context.Context, field int) error {
	own, others := r.values[field][:r.Particles], r.values[fields-1-field]
	r.timer.Enter(move)
	r.own[field].relax(own, others)
	r.timer.Enter(waiting)
	if err := r.complete(ctx); err != nil {
		return err
	}
	if err := r.w.Sync(ctx); err != nil { // from here on the packed values may be changed
		return err
	}
	r.timer.Enter(move)
	r.away[field].relax(own, others)
	r.timer.Enter(tell)
	r.under = 8 * r.copies[field]
	return r.store(ctx, field)
}

// complete waits until the stores of the other field to this rank have arrived. Except in paired
// mode, it also waits for the stores of all other ranks.
func (r *run) complete(ctx context.Context) error {
	if r.paired {
		return r.w.StoreSync(ctx, r.under)
	}
	return r.w.AllStoreSync(ctx)
}

// store stores to the other ranks the values of a field that their nodes depend on.
func (r *run) store(ctx context.Context, field int) error {
	for i := range r.send[field] {
		m := &r.send[field][i]
		m.pack(r.values[field])
		to := r.arrays[field].On(m.to).Add(m.place)
		if !r.Single {
			if err := splitc.BulkStore(ctx, r.w, to, m.value); err != nil {
				return err
			}
			r.timer.Traffic.Store.Add(8 * len(m.value))
			continue
		}
		for k, v := range m.value {
			if err := splitc.Store(ctx, r.w, to.Add(k), v); err != nil {
				return err
			}
			r.timer.Traffic.Store.Add(8)
		}
	}
	return nil
}
