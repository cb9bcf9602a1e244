// Command bobnet shows, measures and tries out Bobnet: messages between
// programs on one Ethernet segment without TCP/IP.
//
// Exit codes: 0 success, 1 failure, 2 wrong usage (a flag, value or interface, also of the
// environment, that does not exist or makes no sense; nothing is started), 128 plus the signal
// when interrupted, 1 then if a file could not be written. lab and run return the worst exit code of their ranks; 126 and 127 if the
// command cannot be run or found.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/launch"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// verbs are the subcommands, in the order in which help shows them.
var verbs = []func() *cobra.Command{
	newDemoCmd,
	newLabCmd,
	newRunCmd,
	newInfoCmd,
	newDoctorCmd,
	newPerfCmd,
	newKeyCmd,
	newPingCmd,
	newMapCmd,
	newPaperCmd,
	newDaemonCmd,
	newAgentCmd,
	newSwitchCmd,
	newCardCmd,
	newTunCmd,
	newTopCmd,
	newRPCGenCmd,
	newManCmd,
	newVersionCmd,
	newNodeCmd,
	newBindCmd,
}

// pipeGrace is how long the reader of a pipe has for what is still to be written to it, when a
// signal has interrupted the command.
const pipeGrace = 2 * time.Second

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		sig := <-signals
		signal.Stop(signals) // the second one ends us at once
		cancel(interrupted(sig.(syscall.Signal)))
		time.AfterFunc(pipeGrace, userfile.GiveUp)
	}()
	root := newRootCmd()
	root.SetOut(stdout)
	err := ended(ctx, usedEnvironment(root.ExecuteContext(ctx)), stdout.Err())
	if _, bare := err.(interrupted); err != nil && !bare { //nolint:errorlint // a verb's own words about it are printed
		fmt.Fprintln(os.Stderr, "bobnet:", err)
	}
	os.Exit(exitCode(err))
}

// ended returns the error of a verb that has ended with err. printing is the first error of
// writing to the standard output. When a signal has interrupted the verb, what it could not do
// is no failure of its own, except for a file that it could not write.
func ended(ctx context.Context, err, printing error) error {
	var (
		sig  interrupted
		lost *userfile.WriteError
	)
	if ctx.Err() == nil {
		return cmp.Or(err, printing)
	}
	if errors.As(errors.Join(err, printing), &lost) {
		return lost
	}
	if err != nil && !errors.As(err, &sig) && errors.As(context.Cause(ctx), &sig) {
		return sig
	}
	return err
}

// newRootCmd returns the command with all its verbs.
func newRootCmd() *cobra.Command {
	var verbose int
	root := &cobra.Command{
		Use:           "bobnet",
		Short:         "Messages between programs on one Ethernet segment, without TCP/IP",
		Version:       version(),
		SilenceErrors: true, // main prints them
		SilenceUsage:  true,

		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if verbose < 0 {
				return usageError{fmt.Errorf("--verbose %d: want 0 or more", verbose)}
			}
			level := slog.LevelWarn - slog.Level(4*min(verbose, 2))
			slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
			return cmp.Or(checkInterface(cmd), checkEnvironment(cmd))
		},
	}
	root.PersistentFlags().CountVarP(&verbose, "verbose", "v", "log what happens; twice: in detail")
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = true
	cobra.EnableCommandSorting = false
	for _, verb := range verbs {
		root.AddCommand(verb())
	}
	helpVerbs(root)
	finishFlags(root)
	return root
}

// version returns the version of this program, with the commit where that is not a release.
func version() string {
	b := thisBuild()
	return fmt.Sprintf("%s (%s)", b.name(), b.Go)
}

// knownVerb refuses arguments that are not the name of a verb.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownVerb(cmd, args[0])
}

// usageError is an error in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage makes the errors of check usage errors, which show how it is done.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w\nusage: %s\nmore:  %s --help", err, cmd.UseLine(), cmd.CommandPath())}
		}
		return nil
	}
}

// wants refuses a call without arguments, and says what is missing.
func wants(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s wants %s", cmd.Name(), what)
		}
		return nil
	}
}

// interrupted is the cause of a context that a signal has cancelled.
type interrupted syscall.Signal

func (s interrupted) Error() string { return syscall.Signal(s).String() }

// exitCode returns the exit code for what the command ended with.
func exitCode(err error) int {
	var (
		wrong usageError
		exit  *lab.ExitError
		ran   *launch.ExitError
		hydra *launch.HydraError
		start *exec.Error
		sig   interrupted
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		return 2
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &ran):
		return ran.Code
	case errors.As(err, &hydra):
		return hydra.Code
	case errors.As(err, &sig):
		return 128 + int(sig)
	case errors.As(err, &start) && errors.Is(err, os.ErrPermission):
		return 126
	case errors.As(err, &start):
		return 127
	}
	return 1
}

// stdout is the standard output, of verbs and of the ranks that they start. The first error of
// writing becomes the command's if it has no other.
var stdout = userfile.Keep(os.Stdout)
