package hardware

// dmaEngine moves octets between the host's memory and SRAM, one transfer at a time.
type dmaEngine struct {
	c        *Card
	busy     bool
	dst, src []byte
	move     func() // instead of them
	doneAt   int64
	finish   func()
}

func (e *dmaEngine) init(c *Card) {
	e.c = c
	e.finish = e.onDone
}

// onDone is the event of a transfer's end. One that comes at another time than this
// transfer's is that of a transfer which reset has ended.
func (e *dmaEngine) onDone() {
	if !e.busy || e.c.world != nil && e.c.world.Now() < e.doneAt {
		return
	}
	dst, src, move := e.dst, e.src, e.move
	e.reset()
	if move != nil {
		move()
	} else {
		copy(dst, src)
	}
	e.c.notify()
}

// reset ends a transfer that is under way. Nothing of it is moved.
func (e *dmaEngine) reset() { e.dst, e.src, e.move, e.busy, e.doneAt = nil, nil, nil, false, 0 }

// DMA starts the engine that moves octets between the host's memory and SRAM, either way:
// as many as dst and src both have. Both are the engine's until Transferring is false. It
// reports false while it is busy. It takes Timing.DMASetup, and the octets' time on the
// bus; the octets are moved at the end of it.
func (c *Card) DMA(dst, src []byte) bool {
	n := min(len(dst), len(src))
	return c.dma.start(n, c.timing.dma(n), dst[:n], src[:n], nil)
}

// Fetch is DMA from the host's memory to SRAM, which takes the octets' time at
// Timing.DMAFetch.
func (c *Card) Fetch(dst, src []byte) bool {
	n := min(len(dst), len(src))
	return c.dma.start(n, c.timing.fetch(n), dst[:n], src[:n], nil)
}

// Transfer is DMA of n octets that move moves, at the end of the transfer: for who finds
// out then where in the host's memory they may go, or how. move is called once, unless the
// program is replaced before, and must not wait.
func (c *Card) Transfer(n int, move func()) bool {
	return c.dma.start(n, c.timing.dma(n), nil, nil, move)
}

func (e *dmaEngine) start(n int, takes int64, dst, src []byte, move func()) bool {
	if e.busy {
		return false
	}
	c := e.c
	c.stats.DMAs++
	c.stats.DMAOctets += uint64(n)
	e.busy, e.dst, e.src, e.move = true, dst, src, move
	e.doneAt = c.Now() + takes
	c.beginAt(e.doneAt, e.finish)
	return true
}

// Transferring reports whether the DMA engine is busy.
func (c *Card) Transferring() bool { return c.dma.busy }
