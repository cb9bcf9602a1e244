package skeleton

// Raytrace draws a picture in tiles. A pixel takes Pixel operations. A pixel of the teapot takes
// Teapot times as many. The teapot fills an ellipse in the middle, with half of the picture's width
// and height.
type Raytrace struct{ Width, Height, Tile, Pixel, Teapot int }

// Run is one rank's part: it takes tiles from a counter at rank 0, draws them, and stores
// the rows of each into the picture of rank 0.
func (a Raytrace) Run(r *Rank) error {
	if err := r.Barrier(); err != nil {
		return err
	}
	across, down := (a.Width+a.Tile-1)/a.Tile, (a.Height+a.Tile-1)/a.Tile
	for {
		i, err := r.next()
		if err != nil {
			return err
		}
		if i >= across*down {
			break
		}
		if err := a.draw(r, i%across*a.Tile, i/across*a.Tile); err != nil {
			return err
		}
	}
	return r.allStoreSync()
}

// draw draws the tile at x, y. A rank polls after each pixel.
func (a Raytrace) draw(r *Rank, x, y int) error {
	right, bottom := min(x+a.Tile, a.Width), min(y+a.Tile, a.Height)
	for py := y; py < bottom; py++ {
		for px := x; px < right; px++ {
			work := a.Pixel
			if a.teapot(px, py) {
				work *= a.Teapot
			}
			if err := r.link.Compute(work); err != nil {
				return err
			}
			if err := r.link.Poll(); err != nil {
				return err
			}
		}
	}
	if r.me == 0 {
		return nil
	}
	return r.store(0, bottom-y, 3*(right-x))
}

func (a Raytrace) teapot(x, y int) bool {
	dx, dy := float64(4*x-2*a.Width)/float64(a.Width), float64(4*y-2*a.Height)/float64(a.Height)
	return dx*dx+dy*dy < 1
}
