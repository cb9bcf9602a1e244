package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/internal/joining"
)

// ReportOf implements joining.Job.
func (j *membership) ReportOf(err error) joining.Report {
	var twice *DuplicateError
	var failed *RankError
	var told *hearsay
	switch {
	case errors.As(err, &twice):
		return joining.Report{Rank: twice.Rank, First: twice.First, Second: twice.Second}
	case errors.As(err, &told) && errors.As(err, &failed):
		return joining.Report{Rank: failed.Rank, Why: told.why}
	case errors.As(err, &failed):
		return joining.Report{Rank: failed.Rank, Why: failed.Err.Error()}
	}
	return joining.Report{Rank: j.Rank, Why: "it gave up: " + strings.TrimPrefix(err.Error(), j.prefix()+": ")}
}

// gaveUp returns the reason of a rank that ends because of r.
func gaveUp(r joining.Report) string {
	if r.Twice() {
		return fmt.Sprintf("it gave up: rank %d is there twice", r.Rank)
	}
	return fmt.Sprintf("it gave up: rank %d failed: %s", r.Rank, r.Why)
}

// causeOf returns why the rank in r has failed, as reported by rank by.
func causeOf(r joining.Report, by int) error {
	if by == r.Rank {
		return lastWords(r.Why)
	}
	return &hearsay{by: by, why: r.Why}
}
