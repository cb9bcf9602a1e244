package shm

import (
	"context"
	"fmt"
	"sync"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// meeting is how neighbours get each other's files. It begins before a rank says that it
// has come, so that whoever has heard of all ranks finds their memory.
type meeting interface {
	// all joins all neighbours.
	all(ctx context.Context, l *Layer) error
	close()
}

// place is where a rank's memory is found.
type place struct {
	nonce      uint64
	generation int
	rank       int
}

func (l *Layer) place(rank int) place {
	return place{l.cfg.Member.Identity().Nonce, l.cfg.Generation, rank}
}

// Simulated returns the host of a rank in the simulator. Tests change it.
var Simulated = Pairs

// Pairs makes two ranks that follow each other a host, as the paper's nodes have two
// processors.
func Pairs(rank int) int { return rank / 2 }

// Hosts returns the host of each rank: a number that those which share memory have in
// common. Ranks share it that have one address on the segment, and in the simulator as
// Simulated says.
func Hosts(nic *vipl.NIC, member *job.Member, procs int) []int {
	hosts := make([]int, procs)
	me := member.Identity().Rank
	byMAC := map[ethertype.MAC]int{}
	for rank := range hosts {
		if seam.EngineOf(nic).Virtual() {
			hosts[rank] = Simulated(rank)
			continue
		}
		mac := nic.Addr().MAC
		if rank != me {
			mac = member.Addr(rank).MAC
		}
		if _, known := byMAC[mac]; !known {
			byMAC[mac] = rank
		}
		hosts[rank] = byMAC[mac]
	}
	return hosts
}

// others returns the other ranks of this one's host.
func (l *Layer) others() (ranks []int) {
	for rank, host := range l.hosts {
		if rank != l.cfg.Rank && host == l.hosts[l.cfg.Rank] {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func (l *Layer) newMeeting() (meeting, error) {
	if seam.EngineOf(l.cfg.NIC).Virtual() {
		return newInProcess(l), nil
	}
	s, err := newSockets(l.prefix(), l.cfg.Rank)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// inProcess is the meeting of ranks that are simulated in one process.
type inProcess struct{ at place }

var simulated struct {
	sync.Mutex
	files map[place]int
}

func newInProcess(l *Layer) inProcess {
	m := inProcess{l.place(l.cfg.Rank)}
	simulated.Lock()
	defer simulated.Unlock()
	if simulated.files == nil {
		simulated.files = map[place]int{}
	}
	simulated.files[m.at] = l.own.fd
	return m
}

func (inProcess) all(_ context.Context, l *Layer) error {
	for _, rank := range l.others() {
		mem, err := l.simulatedMemory(rank)
		if err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		l.join(rank, mem)
	}
	return nil
}

// simulatedMemory maps the memory of a rank, who has come and may have gone again.
func (l *Layer) simulatedMemory(rank int) (*memory, error) {
	simulated.Lock()
	defer simulated.Unlock()
	fd, ok := simulated.files[l.place(rank)]
	if !ok {
		return nil, unix.ENOENT
	}
	return mapMemory(fd, l.cfg.HeapSize, l.cfg.Procs)
}

func (m inProcess) close() {
	simulated.Lock()
	defer simulated.Unlock()
	delete(simulated.files, m.at)
}
