package hardware

// dmaEngine copies between the host's memory and SRAM, one transfer at a time.
type dmaEngine struct {
	c        *Card
	busy     bool
	dst, src []byte
	move     func() // performs the transfer in place of a copy from src to dst
	doneAt   int64
	finish   func()
}

func (e *dmaEngine) init(c *Card) {
	e.c = c
	e.finish = e.onDone
}

// onDone handles the event of a transfer's end. An event before doneAt belongs to an older transfer
// that reset has cancelled.
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

// reset cancels the current transfer. Nothing is copied.
func (e *dmaEngine) reset() { e.dst, e.src, e.move, e.busy, e.doneAt = nil, nil, nil, false, 0 }

// DMA starts a transfer of min(len(dst), len(src)) bytes between the host's memory and SRAM, in
// either direction. The engine owns both slices until Transferring reports false. DMA reports false
// if the engine is busy. The transfer lasts Timing.DMASetup plus the time on the bus; the bytes are
// copied at its end.
func (c *Card) DMA(dst, src []byte) bool {
	n := min(len(dst), len(src))
	return c.dma.start(n, c.timing.dma(n), dst[:n], src[:n], nil)
}

// Fetch is DMA from the host's memory to SRAM, at the rate Timing.DMAFetch.
func (c *Card) Fetch(dst, src []byte) bool {
	n := min(len(dst), len(src))
	return c.dma.start(n, c.timing.fetch(n), dst[:n], src[:n], nil)
}

// Transfer is DMA of n bytes by a function, for a caller that decides only at the end of the
// transfer where the bytes go. The engine calls move once at the end, unless the program is
// replaced before. move must not block.
func (c *Card) Transfer(n int, move func()) bool {
	return c.dma.start(n, c.timing.dma(n), nil, nil, move)
}

func (e *dmaEngine) start(n int, takes int64, dst, src []byte, move func()) bool {
	if e.busy {
		return false
	}
	c := e.c
	c.stats.DMAs++
	c.stats.DMABytes += uint64(n)
	e.busy, e.dst, e.src, e.move = true, dst, src, move
	e.doneAt = c.Now() + takes
	c.beginAt(e.doneAt, e.finish)
	return true
}

// Transferring reports whether the DMA engine is busy.
func (c *Card) Transferring() bool { return c.dma.busy }
