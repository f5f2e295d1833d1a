/* The epochs of one generation in one direction: docs/PROTOCOL.md, section 4.4. The sender rolls its key when the peer has
 * acknowledged what that key sealed; the header has the low bits of the epoch; the receiver holds three keys.
 *
 * The wire keeps for each epoch whether anything was ever sealed with it, whether something of it has not arrived yet, and whether
 * an acknowledgement of something of it may be under way: all of it is lost, repeated and overtaken at will. How often each number is
 * accepted is the window's business (session.pml).
 */

#define EPOCHS 9          /* how far the sender rolls; the code: 256 */
#ifndef ON_WIRE
#define ON_WIRE 4         /* how many the header tells apart; the code: 16 */
#endif

byte sealing;             /* the sender's epoch */
bit acknowledged;         /* whether the peer has acknowledged something sealed with it */
bit sealed[EPOCHS];       /* whether a datagram of the epoch may be under way */
byte opening;             /* the receiver's newest epoch */
bit owed[EPOCHS];         /* whether an acknowledgement of the epoch may be under way */

#ifdef MUTANT_NO_ACKNOWLEDGEMENT
#define MAY_ROLL 1
#else
#define MAY_ROLL acknowledged
#endif

#define HAS_KEY(e) ((e) == opening || (e) == opening + 1 || (e) + 1 == opening)

/* A datagram of epoch e arrives. The key is chosen by the low bits; if it is that of another epoch, it does not open. */
inline arrive(e) {
  if
  :: (e) % ON_WIRE == opening % ON_WIRE -> assert((e) == opening || !HAS_KEY(e))
  :: (e) % ON_WIRE == (opening + 1) % ON_WIRE -> assert((e) == opening + 1 || !HAS_KEY(e))
  :: else
  fi;
  if
  :: HAS_KEY(e) ->
     owed[e] = 1;
     if :: (e) == opening + 1 -> opening = e :: else fi
  :: else
  fi
}

#define STEPS(e) \
  :: d_step { sealed[e] -> arrive(e) } \
  :: d_step { owed[e] && e == sealing -> acknowledged = 1 }

init {
end:
  do
  :: d_step {
       /* Whatever is sealed now opens, unless it is lost; else nothing would ever get through again. */
       assert(HAS_KEY(sealing));
       sealed[sealing] = 1
     }
  :: d_step { MAY_ROLL && sealing + 1 < EPOCHS -> sealing++; acknowledged = 0 }
  STEPS(0) STEPS(1) STEPS(2) STEPS(3) STEPS(4) STEPS(5) STEPS(6) STEPS(7) STEPS(8)
  od
}
