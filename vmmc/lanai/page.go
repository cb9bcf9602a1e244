package lanai

import "github.com/bobnet-go/bobnet/internal/shared"

// The page that a process shares with the card. Each side checks copies of the data that the other
// side writes. Words of 32 bits are loaded and stored whole.
//
//	offset   size  field
//	     0   4060  the send queue, as in a doorbell page
//	  4096   8192  the outgoing page table, which the process writes
//	 12288   1024  for each node the lowest 32 bits of the number of the line that the process knows
//	 13312    116  for each slot the result of its last request, which the card writes
//	 16384 475136  for each slot a place for data that is copied from elsewhere
const (
	tableAt = 4096
	linesAt = tableAt + outgoingSize
	wordsAt = linesAt + maxNodes*lineWord
	pageEnd = stageAt + slots*stageSize

	lineWord = 4

	stageAt   = 16384
	stageSize = 16384
	stageData = stageSize - wordSize // bytes of a request whose data is copied there
)

// share places a queue in shared memory.
func (q *queue) share(mem []byte) {
	q.mem, q.lines = mem[:tableAt], mem[linesAt:wordsAt]
	q.table.mem = mem[tableAt:linesAt]
	q.words = mem[wordsAt:][:slots*4]
}

// Bells of a page of bells: the card's, which the process rings, and the process's. Their things are
// processes.
const (
	callsAt   = 0
	newsAt    = 2048
	bellsSize = newsAt + shared.BellSize
)
