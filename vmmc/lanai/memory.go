package lanai

import "github.com/bobnet-go/bobnet/vipl"

// Physical memory
//
// A card names the host's memory by the numbers of its pages. Here the numbers are given
// out by the driver, for two purposes: a frame is a page that an importer may write to, a
// pin a page that a process sends from. A page that two importers may write has two
// frames, so that it can be taken from one of them.

// frame is a page, or as much of it as is exported.
type frame struct {
	mem   []byte // what may be written, nil for nothing
	from  int    // byte of the page at which it begins
	owner *seat
	to    importer
}

// importer is the process that may write to a frame: the node that the card knows it by, and its
// port there.
type importer struct {
	node int
	port uint16
}

// run is frames in a row, those of one grant. The zero run has none.
type run struct{ first, n uint32 }

func (r run) has(frame uint32) bool { return frame >= r.first && frame < r.first+r.n }

// frames is the pages that may be written. The first number is not given out, so that address 0 is
// none.
type frames struct {
	base uint32 // number of all[0]
	all  []frame
	used []bool
	next int // where to look first: a number is used again as late as possible
	n    int
}

func newFrames(base uint32, n int) frames {
	return frames{base: base, all: make([]frame, n), used: make([]bool, n), next: 1}
}

// pageOffset returns at which byte of a page mem begins.
func pageOffset(mem []byte) int {
	if len(mem) == 0 {
		return 0
	}
	return int(vipl.VirtualAddress(mem) % pageSize)
}

// pagesOf returns how many pages n bytes from an offset in a page on touch: one at least.
func pagesOf(offset int, n uint64) uint64 { return max((uint64(offset)+n+pageSize-1)/pageSize, 1) }

// take gives mem a run of frames; false if there is none that is long enough.
func (f *frames) take(owner *seat, mem []byte, to importer) (run, bool) {
	r, ok := f.reserve(int(pagesOf(pageOffset(mem), uint64(len(mem)))))
	if ok {
		f.fill(r, owner, mem, to)
	}
	return r, ok
}

// reserve takes n numbers in a row; false if there are not as many.
func (f *frames) reserve(n int) (run, bool) {
	at := f.gap(f.next, n)
	if at == 0 {
		at = f.gap(1, n)
	}
	if at == 0 {
		return run{}, false
	}
	for i := at; i < at+n; i++ {
		f.used[i] = true
	}
	f.n += n
	f.next = at + n
	return run{f.base + uint32(at), uint32(n)}, true
}

// fill has an importer write to mem by a run of frames.
func (f *frames) fill(r run, owner *seat, mem []byte, to importer) {
	offset := pageOffset(mem)
	for i := r.first - f.base; i < r.first-f.base+r.n; i++ {
		size := min(pageSize-offset, len(mem))
		f.all[i] = frame{mem[:size:size], offset, owner, to}
		mem, offset = mem[size:], 0
	}
}

// gap returns where n free frames begin, at from or behind it; 0 for nowhere.
func (f *frames) gap(from, n int) int {
	free := 0
	for i := from; i < len(f.all); i++ {
		if free++; f.used[i] {
			free = 0
		}
		if free == n {
			return i - n + 1
		}
	}
	return 0
}

// close has nothing be written to the frames any more. Their numbers stay taken.
func (f *frames) close(r run) { clear(f.all[r.first-f.base:][:r.n]) }

// filled returns how many of the frames have memory.
func (f *frames) filled(r run) (n int) {
	for i := range f.all[r.first-f.base:][:r.n] {
		if f.all[int(r.first-f.base)+i].owner != nil {
			n++
		}
	}
	return n
}

// free gives the numbers back.
func (f *frames) free(r run) {
	f.close(r)
	clear(f.used[r.first-f.base:][:r.n])
	f.n -= int(r.n)
}

// at returns the n bytes of memory at a physical address, and whose they are; nil if the
// importer may not write to all of them.
func (f *frames) at(addr uint64, n int, from importer) ([]byte, *seat) {
	number, offset := addr>>pageShift-uint64(f.base), int(addr%pageSize)
	if number >= uint64(len(f.all)) {
		return nil, nil
	}
	x := &f.all[number]
	at := offset - x.from
	if x.owner == nil || x.to != from || at < 0 || at+n > len(x.mem) {
		return nil, nil
	}
	return x.mem[at : at+n], x.owner
}

// space is the memory of a process that its sends may name: what it has under way.
type space struct {
	ranges []memRange
	pins   map[uint64]uint32 // by virtual page
	pages  []uint64          // virtual pages, by pin
	spare  []uint32          // pins that are not in use
}

type memRange struct {
	at  uint64
	mem []byte
}

func newSpace() space { return space{pins: map[uint64]uint32{}} }

// enter has sends name mem, at a virtual address, until leave.
func (s *space) enter(at uint64, mem []byte) {
	s.ranges = append(s.ranges, memRange{at, mem})
}

// leave takes mem back. What was entered first ends first, as a rule.
func (s *space) leave(at uint64, mem []byte) {
	for i := range s.ranges {
		if r := &s.ranges[i]; r.at == at && len(r.mem) == len(mem) {
			last := len(s.ranges) - 1
			copy(s.ranges[i:], s.ranges[i+1:])
			s.ranges[last] = memRange{}
			s.ranges = s.ranges[:last]
			return
		}
	}
}

// reaches returns the virtual address of memory that was entered; false if not all of it was.
func (s *space) reaches(mem []byte) (at uint64, ok bool) {
	own := vipl.VirtualAddress(mem)
	for i := range s.ranges {
		r := &s.ranges[i]
		if base := vipl.VirtualAddress(r.mem); own >= base && own-base <= uint64(len(r.mem)) && uint64(len(mem)) <= uint64(len(r.mem))-(own-base) {
			return r.at + own - base, true
		}
	}
	return 0, false
}

// find returns n bytes at a virtual address; nil if not all of them are the process's.
func (s *space) find(at uint64, n int) []byte {
	for i := range s.ranges {
		if r := &s.ranges[i]; at >= r.at && at-r.at <= uint64(len(r.mem)) && uint64(n) <= uint64(len(r.mem))-(at-r.at) {
			return r.mem[at-r.at:][:n]
		}
	}
	return nil
}

// extent returns the last virtual page of the longest range that has a part of a page;
// false if there is none.
func (s *space) extent(page uint64) (last uint64, ok bool) {
	for i := range s.ranges {
		r := &s.ranges[i]
		if first, end := r.at>>pageShift, (r.at+uint64(len(r.mem))-1)>>pageShift; len(r.mem) > 0 && first <= page && page <= end {
			last, ok = max(last, end), true
		}
	}
	return last, ok
}

// pin keeps a page in memory, and returns its number.
func (s *space) pin(page uint64) uint32 {
	if n, ok := s.pins[page]; ok {
		return n
	}
	var n uint32
	if last := len(s.spare) - 1; last >= 0 {
		n, s.spare = s.spare[last], s.spare[:last]
		s.pages[n] = page
	} else {
		n = uint32(len(s.pages))
		s.pages = append(s.pages, page)
	}
	s.pins[page] = n
	return n
}

// unpin lets a page go.
func (s *space) unpin(n uint32) {
	delete(s.pins, s.pages[n])
	s.pages[n] = 0
	s.spare = append(s.spare, n)
}

// load returns the memory at an offset of a pinned page, nil if it is not the process's.
func (s *space) load(pin uint32, offset, n int) []byte {
	if int(pin) >= len(s.pages) || s.pages[pin] == 0 {
		return nil
	}
	return s.find(s.pages[pin]<<pageShift+uint64(offset), n)
}
