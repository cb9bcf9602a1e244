// # MPI-1
//
// The table lists every call of MPI 1.3 with its equivalent, or the reason that there is none. If a
// row has two Go names, the method moves bytes and the function elements of any type. Calls return
// errors, and a context ends calls that wait. Calls that MPI calls erroneous return errors.
//
// Point to point:
//
//	MPI_Send                   Comm.Send, Send
//	MPI_Recv                   Comm.Recv, Recv
//	MPI_Get_count              Status.Count, Elements     bytes; whole elements
//	MPI_Bsend                  -                          Send up to the eager size; beyond, Isend of a copy
//	MPI_Ssend                  Comm.Ssend, Ssend
//	MPI_Rsend                  Comm.Send, Send            as MPI allows
//	MPI_Buffer_attach          -                          no buffered mode: see MPI_Bsend
//	MPI_Buffer_detach          -                          no buffered mode
//	MPI_Isend                  Comm.Isend, Isend
//	MPI_Ibsend                 -                          see MPI_Bsend
//	MPI_Issend                 Comm.Issend, Issend
//	MPI_Irsend                 Comm.Isend, Isend
//	MPI_Irecv                  Comm.Irecv, Irecv
//	MPI_Wait                   Request.Wait
//	MPI_Test                   Request.Test
//	MPI_Request_free           Request.Free
//	MPI_Waitany                Waitany
//	MPI_Testany                Testany
//	MPI_Waitall                Waitall
//	MPI_Testall                Testall
//	MPI_Waitsome               Waitsome
//	MPI_Testsome               Testsome
//	MPI_Iprobe                 Comm.Iprobe                the same, with Comm.Improbe
//	MPI_Probe                  Comm.Probe                 Comm.Mprobe where several goroutines receive
//	MPI_Cancel                 Request.Cancel             local; a message that was announced may still be received
//	MPI_Test_cancelled         Status.Canceled
//	MPI_Send_init              Comm.SendInit, SendInit
//	MPI_Bsend_init             -                          see MPI_Bsend
//	MPI_Ssend_init             Comm.SsendInit, SsendInit
//	MPI_Rsend_init             Comm.SendInit, SendInit
//	MPI_Recv_init              Comm.RecvInit, RecvInit
//	MPI_Start                  Request.Start
//	MPI_Startall               Startall
//	MPI_Sendrecv               Comm.Sendrecv, Sendrecv
//	MPI_Sendrecv_replace       Comm.SendrecvReplace, SendrecvReplace
//
// Datatypes:
//
//	MPI_Type_contiguous        -                          a slice, or an array as element
//	MPI_Type_vector            NewVector, Vector          its methods are the calls
//	MPI_Type_hvector           NewVector                  strides are in elements
//	MPI_Type_indexed           -                          copy to a slice
//	MPI_Type_hindexed          -                          the same
//	MPI_Type_struct            Send, Recv                 a Go struct is an element: see Elements
//	MPI_Address                -                          Go's types define the offsets of fields
//	MPI_Type_extent            -                          unsafe.Sizeof
//	MPI_Type_size              -                          unsafe.Sizeof; padding travels
//	MPI_Type_lb                -                          0
//	MPI_Type_ub                -                          unsafe.Sizeof
//	MPI_Type_commit            -                          types need no preparation
//	MPI_Type_free              -                          nothing to free
//	MPI_Get_elements           Elements                   with the type of the element's numbers, to count these
//	MPI_Pack                   Vector.Pack                of bytes: encoding/binary; bytes match everything
//	MPI_Unpack                 Vector.Unpack
//	MPI_Pack_size              Vector.Len                 elements
//
// Collectives. If the calls of a collective do not match, or one rank passes invalid arguments,
// every rank gets an error; MPI calls this erroneous. Most ranks get the error from this call. A
// rank that has completed its part may have returned before the detection. It gets the error from
// its next collective on the communicator. This often happens to a rank that only sends, as noted
// in the table. The same holds for the nonblocking forms.
//
//	MPI_Barrier                Comm.Barrier
//	MPI_Bcast                  Comm.Bcast, Bcast          root may only send
//	MPI_Gather                 Gather                     all ranks but root may only send
//	MPI_Gatherv                Gatherv                    all ranks but root only send; displacements are optional, and a nil slice is MPI_IN_PLACE
//	MPI_Scatter                Scatter                    root only sends
//	MPI_Scatterv               Scatterv                   root only sends
//	MPI_Allgather              Allgather
//	MPI_Allgatherv             Allgatherv
//	MPI_Alltoall               Alltoall
//	MPI_Alltoallv              Alltoallv
//	MPI_Reduce                 Reduce                     all ranks but root may only send
//	MPI_Op_create              NewOp                      panics without a function; MPI_MAXLOC and MPI_MINLOC are MaxLoc and MinLoc, of elements Loc
//	MPI_Op_free                -                          nothing to free
//	MPI_Allreduce              Allreduce
//	MPI_Reduce_scatter         ReduceScatter
//	MPI_Scan                   Scan
//
// Groups, contexts and communicators:
//
//	MPI_Group_size             Group.Size
//	MPI_Group_rank             Group.Rank                 Undefined outside the group
//	MPI_Group_translate_ranks  Group.TranslateRanks       Comm.JobRank to the job's first communicator
//	MPI_Group_compare          Group.Compare
//	MPI_Comm_group             Comm.Group
//	MPI_Group_union            Group.Union
//	MPI_Group_intersection     Group.Intersection
//	MPI_Group_difference       Group.Difference
//	MPI_Group_incl             Group.Include
//	MPI_Group_excl             Group.Exclude
//	MPI_Group_range_incl       Group.IncludeRanges
//	MPI_Group_range_excl       Group.ExcludeRanges
//	MPI_Group_free             -                          nothing to free
//	MPI_Comm_size              Comm.Size
//	MPI_Comm_rank              Comm.Rank
//	MPI_Comm_compare           Compare
//	MPI_Comm_dup               Comm.Dup, Cart.Dup         a grid's copy is a grid
//	MPI_Comm_create            Comm.CommCreate            of several groups at once, if they share no rank
//	MPI_Comm_split             Comm.Split                 Undefined gives nil
//	MPI_Comm_free              Comm.Free                  returns ErrComm (MPI_ERR_COMM) for the communicators of Init and Self
//	MPI_Comm_test_inter        -                          no intercommunicators
//	MPI_Comm_remote_size       -                          no intercommunicators
//	MPI_Comm_remote_group      -                          no intercommunicators
//	MPI_Intercomm_create       -                          one job is one world, in which all ranks reach each other
//	MPI_Intercomm_merge        -                          no intercommunicators
//	MPI_Keyval_create          -                          no attributes: use a map, or a struct that contains the Comm
//	MPI_Keyval_free            -                          no attributes
//	MPI_Attr_put               -                          no attributes
//	MPI_Attr_get               MaxTag                     MPI_TAG_UB only; no other attributes
//	MPI_Attr_delete            -                          no attributes
//
// Topologies:
//
//	MPI_Cart_create            Comm.CartCreate            ranks keep their order
//	MPI_Dims_create            DimsCreate
//	MPI_Graph_create           -                          no graphs: on one segment all ranks are equally near
//	MPI_Topo_test              -                          the Go type shows it: Comm or Cart
//	MPI_Graphdims_get          -                          no graphs
//	MPI_Graph_get              -                          no graphs
//	MPI_Cartdim_get            Cart.Dims                  its length
//	MPI_Cart_get               Cart.Dims, Cart.Coords
//	MPI_Cart_rank              Cart.RankAt
//	MPI_Cart_coords            Cart.Coords
//	MPI_Graph_neighbors_count  -                          no graphs
//	MPI_Graph_neighbors        -                          no graphs; Cart.Neighbours of a grid
//	MPI_Cart_shift             Cart.Shift
//	MPI_Cart_sub               Cart.Sub
//	MPI_Cart_map               -                          ranks keep their order
//	MPI_Graph_map              -                          no graphs
//
// Environment and profiling:
//
//	MPI_Init                   Init, Open                 job, rank and size from the environment or a Config
//	MPI_Finalize               Comm.Finalize, Comm.Close  Close is bounded by Config.Timeout
//	MPI_Initialized            -                          a program that has a Comm has called Init
//	MPI_Abort                  Comm.Abort                 ends this process (Config.Exit); elsewhere operations end with AbortError
//	MPI_Get_processor_name     -                          os.Hostname
//	MPI_Get_version            -                          no version of MPI is claimed
//	MPI_Errhandler_create      -                          errors are returned
//	MPI_Errhandler_set         -                          errors are returned, as by MPI_ERRORS_RETURN
//	MPI_Errhandler_get         -                          errors are returned
//	MPI_Errhandler_free        -                          errors are returned
//	MPI_Error_string           -                          error.Error
//	MPI_Error_class            -                          errors.Is, with the Err variables
//	MPI_Wtime                  Comm.Wtime
//	MPI_Wtick                  -                          Wtime resolves nanoseconds
//	MPI_Pcontrol               -                          runtime/pprof; counters by Comm.Snapshot
//
// Constants and operations:
//
//	MPI_COMM_WORLD             Init                       what it returns
//	MPI_COMM_SELF              Comm.Self
//	MPI_PROC_NULL              None
//	MPI_ANY_SOURCE             AnySource
//	MPI_ANY_TAG                AnyTag
//	MPI_UNDEFINED              Undefined
//	MPI_REQUEST_NULL           Request                    the zero one; Request.Null
//	MPI_ERR_COMM               ErrComm
//	MPI_ERR_IN_STATUS          RequestsError, ErrInStatus
//	MPI_BYTE                   -                          the []byte methods; see Elements
//	MPI_PACKED                 -                          the same
//	MPI_BOTTOM                 -                          a slice identifies its memory
//	MPI_SUM                    Sum
//	MPI_PROD                   Prod
//	MPI_MAX                    Max
//	MPI_MIN                    Min
//	MPI_LAND                   LogicalAnd
//	MPI_LOR                    LogicalOr
//	MPI_LXOR                   LogicalXor
//	MPI_BAND                   BitAnd
//	MPI_BOR                    BitOr
//	MPI_BXOR                   BitXor
//	MPI_MAXLOC                 MaxLoc, Loc
//	MPI_MINLOC                 MinLoc, Loc
//
// Calls of later versions:
//
//	MPI_Mprobe                 Comm.Mprobe
//	MPI_Improbe                Comm.Improbe
//	MPI_Mrecv                  Matched.Mrecv, Mrecv
//	MPI_Imrecv                 Matched.Imrecv, Imrecv
//	MPI_Comm_split_type        Comm.SplitShared           the type MPI_COMM_TYPE_SHARED only
//	MPI_Exscan                 Exscan
//	MPI_Ibarrier               Comm.Ibarrier
//	MPI_Ibcast                 Ibcast
//	MPI_Igather                Igather
//	MPI_Igatherv               Igatherv
//	MPI_Iscatter               Iscatter
//	MPI_Iscatterv              Iscatterv
//	MPI_Iallgather             Iallgather
//	MPI_Iallgatherv            Iallgatherv
//	MPI_Ialltoall              Ialltoall
//	MPI_Ialltoallv             Ialltoallv
//	MPI_Ireduce                Ireduce
//	MPI_Iallreduce             Iallreduce
//	MPI_Ireduce_scatter        IreduceScatter
//	MPI_Iscan                  Iscan
//	MPI_Iexscan                Iexscan
package mplite
