package mplite

import "context"

// Staging buffers hold elements that are not contiguous, and the data that SendrecvReplace sends,
// while they are transferred. The library reuses these buffers.

// stagePool holds the free staging buffers by size class, powers of two as in spillPool.
type stagePool struct {
	free [48][][]byte
	kept int // bytes in free
}

// stageKept is the maximum staging memory, in bytes, that a rank keeps.
const stageKept = 16 << 20

func (p *stagePool) get(n int) []byte {
	class := spillClass(n)
	last := len(p.free[class]) - 1
	if last < 0 {
		return make([]byte, n, 64<<class)
	}
	b := p.free[class][last]
	p.free[class] = p.free[class][:last]
	p.kept -= cap(b)
	return b[:n]
}

func (p *stagePool) put(b []byte) {
	if p.kept+cap(b) > stageKept {
		return
	}
	p.kept += cap(b)
	class := spillClass(cap(b))
	p.free[class] = append(p.free[class], b)
}

// lend returns n bytes of staging memory.
func (w *world) lend(n int) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stages.get(n)
}

func (w *world) giveBack(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stages.put(b)
}

// take copies the data of a completed receive from stage to the parts.
func (s *strided) take(stage []byte, st Status, err error) {
	if err == nil || isTruncate(err) {
		s.scatter(stage[:st.Count])
	}
}

// unstage ends the use of staging memory by r, which has completed.
func (w *world) unstage(r *request) {
	r.shape.take(r.stage, r.status, r.err)
	w.stages.put(r.stage)
	r.stage, r.shape = nil, strided{}
}

func (c *Comm) sendStrided(ctx context.Context, v strided, dst, tag int, s spec) error {
	stage := c.w.lend(v.size())
	v.gather(stage)
	err := c.send(ctx, stage, dst, tag, s)
	c.w.giveBack(stage)
	return err
}

func (c *Comm) recvStrided(ctx context.Context, v strided, src, tag int, s spec) (Status, error) {
	stage := c.w.lend(v.size())
	st, err := c.recv(ctx, stage, src, tag, s)
	v.take(stage, st, err)
	c.w.giveBack(stage)
	return st, err
}

func (c *Comm) startStrided(p plan) (Request, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return handle(c.carryOut(&p))
}

// carryOut starts the operation p, through staging memory if its elements are not contiguous.
func (c *Comm) carryOut(p *plan) (r *request, err error) {
	w, buf := c.w, p.buf
	staged := p.shape.count > 0
	if staged {
		buf = w.stages.get(p.shape.size())
	}
	if p.recv {
		r, err = c.postRecv(buf, p.peer, p.tag, p.spec)
	} else {
		if staged {
			p.shape.gather(buf)
		}
		r, err = c.startSend(buf, p.peer, p.tag, p.spec)
	}
	switch {
	case !staged:
	case err != nil:
		w.stages.put(buf)
	default:
		r.stage = buf
		if p.recv {
			r.shape = p.shape
		}
		if r.state == stateDone {
			w.unstage(r)
		}
	}
	return r, err
}

// SendrecvReplace sends buf and receives into it (MPI_Sendrecv_replace): a Sendrecv with one
// buffer. If src is None, buf is unchanged.
func (c *Comm) SendrecvReplace(ctx context.Context, buf []byte, dst, sendtag, src, recvtag int) (Status, error) {
	return c.replace(ctx, buf, dst, sendtag, src, recvtag, c.user(rawBytes))
}

// SendrecvReplace is Comm.SendrecvReplace for elements of T.
func SendrecvReplace[T any](ctx context.Context, c *Comm, buf []T, dst, sendtag, src, recvtag int) (Status, error) {
	typ := elementOf[T]()
	if typ.err != nil {
		return Status{}, typ.err
	}
	return c.replace(ctx, asBytes(buf), dst, sendtag, src, recvtag, c.user(typ))
}

func (c *Comm) replace(ctx context.Context, buf []byte, dst, sendtag, src, recvtag int, s spec) (Status, error) {
	stage := c.w.lend(len(buf))
	copy(stage, buf)
	st, err := c.exchange(ctx, stage, dst, sendtag, buf, src, recvtag, s)
	c.w.giveBack(stage)
	return st, err
}
