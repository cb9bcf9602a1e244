package raytrace

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/internal/examples/spmd"
	"github.com/bobnet-go/bobnet/splitc"
)

// The phases of a run.
const (
	drawing = iota
	asking
	waiting
)

// Run draws the picture on all ranks of w, all of which must call it. Rank 0 gets the report and
// the picture.
func Run(ctx context.Context, w *splitc.World, c Config) (*report.Report, *Picture, error) {
	if err := c.Check(); err != nil {
		return nil, nil, err
	}
	p := &painter{Tracer: NewTracer(c), w: w}
	p.timer = report.NewTimer(report.Phase{Name: "rays"}, report.Phase{Name: "the next tile", Waits: true}, report.Phase{Name: "the others' last tiles", Waits: true})
	if err := p.allocate(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.draw(ctx); err != nil {
		return nil, nil, err
	}
	rep := report.New("raytrace", c.size(), w.Layer(), w.Procs())
	if err := spmd.Collect(ctx, w, rep, p.timer); err != nil {
		return nil, nil, err
	}
	var whole *Picture
	if w.MyProc() == 0 {
		whole = &Picture{c.Width, c.Height, append([]byte(nil), p.picture.Local(w)...)}
	}
	if err := splitc.AllSpreadFree(ctx, w, p.next); err != nil {
		return nil, nil, err
	}
	return rep, whole, splitc.AllSpreadFree(ctx, w, p.picture)
}

// painter is a rank that draws tiles.
type painter struct {
	*Tracer
	w       *splitc.World
	timer   *report.Timer
	picture splitc.Array[byte]  // the picture; only the copy at rank 0 is used
	next    splitc.Array[int64] // at rank 0: the next tile that no rank has taken
	tiles   int64               // number of tiles that this rank has drawn
}

func (p *painter) allocate(ctx context.Context) (err error) {
	if p.picture, err = splitc.AllSpreadMalloc[byte](ctx, p.w, p.w.Procs(), 3*p.Width*p.Height); err != nil {
		return err
	}
	p.next, err = splitc.AllSpreadMalloc[int64](ctx, p.w, p.w.Procs(), 1)
	return err
}

// draw draws tiles until none is left, and waits until all tiles have arrived at rank 0.
func (p *painter) draw(ctx context.Context) error {
	if err := p.w.Barrier(ctx); err != nil {
		return err
	}
	buf := make([]byte, 3*p.Tile*p.Tile)
	for {
		p.timer.Enter(asking)
		if err := p.w.Sync(ctx); err != nil { // from here on the buffer of the last tile may be changed
			return err
		}
		i, err := splitc.FetchAdd(ctx, p.w, p.next.On(0), 1)
		if err != nil {
			return err
		}
		if i >= int64(p.Config.tiles()) {
			break
		}
		p.timer.Enter(drawing)
		if err := p.drawTile(ctx, int(i), buf); err != nil {
			return err
		}
		p.tiles++
	}
	p.timer.Enter(waiting)
	err := p.w.AllStoreSync(ctx)
	p.timer.Stop()
	return err
}

// drawTile draws a tile and stores it into the picture.
func (p *painter) drawTile(ctx context.Context, i int, buf []byte) error {
	r := p.tile(i)
	n := 3 * r.Dx()
	for i := range r.Dx() * r.Dy() {
		x, y := r.Min.X+i%r.Dx(), r.Min.Y+i/r.Dx()
		p.row(buf[3*i:3*i+3], x, x+1, y)
		if err := p.w.Poll(); err != nil {
			return err
		}
	}
	if p.w.MyProc() != 0 {
		p.timer.Traffic.Store.Add(n * r.Dy())
	}
	to := p.picture.On(0).Add(3 * (r.Min.Y*p.Width + r.Min.X))
	return splitc.StridedStore(ctx, p.w, to, buf[:n*r.Dy()], splitc.Stride{Blocks: r.Dy(), Len: n, Local: n, Remote: 3 * p.Width})
}
