package heat

// relax computes one step of a row: next[i] for every i but the first and the
// last, from the row itself and those above and below. All have one length.
//
// The conversion around the product forbids fusing it with the addition, so
// that every build gives the same bits.
func relax(next, up, row, down []float64, rate float64) {
	n := len(next) - 2
	next, up, down = next[1:1+n], up[1:1+n], down[1:1+n]
	left, here, right := row[:n], row[1:1+n], row[2:2+n]
	for i := range next {
		t := here[i]
		flow := up[i] + down[i] + left[i] + right[i] - float64(4*t)
		next[i] = t + float64(rate*flow)
	}
}

// Serial computes the result of Run on one undivided plate, without blocks, halos and messages. It
// is the reference for checking Run.
func Serial(cfg Config) (*Grid, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	first, err := cfg.plate()
	if err != nil {
		return nil, err
	}
	w, h := first.Width, first.Height
	now := &Grid{w, h, append([]float64(nil), first.Cells...)}
	next := &Grid{w, h, append([]float64(nil), first.Cells...)}
	var sources []source
	for i, heat := range first.Cells {
		if heat >= cfg.Source {
			sources = append(sources, source{i, heat})
		}
	}
	for step := 1; step <= cfg.Steps; step++ {
		for y := 1; y < h-1; y++ {
			relax(next.row(y), now.row(y-1), now.row(y), now.row(y+1), cfg.Rate)
		}
		for _, s := range sources {
			next.Cells[s.index] = s.heat
		}
		now, next = next, now
		if cfg.Progress != nil && step%cfg.reportEvery() == 0 {
			cfg.Progress(Progress{step, cfg.Steps, now.mean()})
		}
	}
	return now, nil
}
