package lanai

import "github.com/bobnet-go/bobnet/vipl"

// Physical memory
//
// A card addresses the host's memory by page numbers. Here the driver assigns the numbers, for two
// purposes: a frame is a page that an importer may write, a pin is a page that a process sends
// from. A page that two importers may write has two frames, so that it can be revoked from one of
// them.

// frame is a page, or its exported part.
type frame struct {
	mem   []byte // writable memory, nil for none
	from  int    // offset of mem in the page
	owner *seat
	to    importer
}

// importer is the process that may write a frame: the card's number of its node, and its port
// there.
type importer struct {
	node int
	port uint16
}

// run is a sequence of consecutive frames, those of one grant. The zero run is empty.
type run struct{ first, n uint32 }

func (r run) has(frame uint32) bool { return frame >= r.first && frame < r.first+r.n }

// frames is the table of writable pages. The first number is not used, so that address 0 is
// invalid.
type frames struct {
	base uint32 // number of all[0]
	all  []frame
	used []bool
	next int // where to search next: a number is reused as late as possible
	n    int
}

func newFrames(base uint32, n int) frames {
	return frames{base: base, all: make([]frame, n), used: make([]bool, n), next: 1}
}

// pageOffset returns the offset of mem in its page.
func pageOffset(mem []byte) int {
	if len(mem) == 0 {
		return 0
	}
	return int(vipl.VirtualAddress(mem) % pageSize)
}

// pagesOf returns how many pages n bytes at an offset in a page touch, at least one.
func pagesOf(offset int, n uint64) uint64 { return max((uint64(offset)+n+pageSize-1)/pageSize, 1) }

// allocate assigns a run of frames to mem. It reports false if no run is long enough.
func (f *frames) allocate(owner *seat, mem []byte, to importer) (run, bool) {
	r, ok := f.reserve(int(pagesOf(pageOffset(mem), uint64(len(mem)))))
	if ok {
		f.fill(r, owner, mem, to)
	}
	return r, ok
}

// reserve reserves n consecutive numbers. It reports false if there is no such run.
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

// fill lets an importer write to mem through a run of frames.
func (f *frames) fill(r run, owner *seat, mem []byte, to importer) {
	offset := pageOffset(mem)
	for i := r.first - f.base; i < r.first-f.base+r.n; i++ {
		size := min(pageSize-offset, len(mem))
		f.all[i] = frame{mem[:size:size], offset, owner, to}
		mem, offset = mem[size:], 0
	}
}

// gap returns the start of n free frames at or after from, or 0 if there are none.
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

// close prevents further writes to the frames. Their numbers stay reserved.
func (f *frames) close(r run) { clear(f.all[r.first-f.base:][:r.n]) }

// filled returns the number of frames with memory.
func (f *frames) filled(r run) (n int) {
	for i := range f.all[r.first-f.base:][:r.n] {
		if f.all[int(r.first-f.base)+i].owner != nil {
			n++
		}
	}
	return n
}

// free frees the numbers.
func (f *frames) free(r run) {
	f.close(r)
	clear(f.used[r.first-f.base:][:r.n])
	f.n -= int(r.n)
}

// at returns n bytes of memory at a physical address, and their owner. It returns nil if the
// importer may not write all of them.
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

// space holds the memory of a process that its requests may name.
type space struct {
	ranges []memRange
	pins   map[uint64]uint32 // by virtual page
	pages  []uint64          // virtual pages, by pin
	spare  []uint32          // unused pins
}

type memRange struct {
	at  uint64
	mem []byte
}

func newSpace() space { return space{pins: map[uint64]uint32{}} }

// enter lets requests name mem, at a virtual address, until leave.
func (s *space) enter(at uint64, mem []byte) {
	s.ranges = append(s.ranges, memRange{at, mem})
}

// leave removes mem. Usually the oldest entry leaves first.
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

// reaches returns the virtual address of memory. It reports false if not all of it was entered.
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

// find returns n bytes at a virtual address, or nil if not all of them belong to the process.
func (s *space) find(at uint64, n int) []byte {
	for i := range s.ranges {
		if r := &s.ranges[i]; at >= r.at && at-r.at <= uint64(len(r.mem)) && uint64(n) <= uint64(len(r.mem))-(at-r.at) {
			return r.mem[at-r.at:][:n]
		}
	}
	return nil
}

// extent returns the last virtual page of the longest range that contains a part of page. It
// reports false if there is none.
func (s *space) extent(page uint64) (last uint64, ok bool) {
	for i := range s.ranges {
		r := &s.ranges[i]
		if first, end := r.at>>pageShift, (r.at+uint64(len(r.mem))-1)>>pageShift; len(r.mem) > 0 && first <= page && page <= end {
			last, ok = max(last, end), true
		}
	}
	return last, ok
}

// pin pins a page, and returns its number.
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

// unpin releases a page.
func (s *space) unpin(n uint32) {
	delete(s.pins, s.pages[n])
	s.pages[n] = 0
	s.spare = append(s.spare, n)
}

// load returns memory at an offset of a pinned page, or nil if it does not belong to the process.
func (s *space) load(pin uint32, offset, n int) []byte {
	if int(pin) >= len(s.pages) || s.pages[pin] == 0 {
		return nil
	}
	return s.find(s.pages[pin]<<pageShift+uint64(offset), n)
}
