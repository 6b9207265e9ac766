//! Uses by the queues of owners, whose place the session takes (D25).

use super::objects::named;
use super::session::Session;
use crate::scenario::steps::{Answered, BeginUse, DEFAULT_DEVICE, EndUse, Make, Undone};

impl Make<Session<'_>> for BeginUse {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let name = self.device.as_deref().unwrap_or(DEFAULT_DEVICE);
        session.device(name)?;
        let device = session.objects.devices.get_mut(name).expect("it is there, or made");
        let vidmm = session.runtime.vidmm();
        let context = match device.self_scheduled {
            Some(context) => context,
            None => *device.self_scheduled.insert(vidmm.create_self_scheduled_context(device.device)?),
        };
        let number = vidmm.begin_use(context)?;
        session.narrator.names.uses.insert((device.device, number), self.name.clone());
        session.objects.uses.insert(self.name.clone(), (context, number));
        Ok(Answered::ok())
    }
}

/// Ends a use, once it has begun. Where rules judge, it is ended at once, or not at all.
impl Make<Session<'_>> for EndUse {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let &(context, number) = named(&session.objects.uses, &self.name)?;
        let end = |session: &mut Session<'_>| session.runtime.vidmm().end_use(context, number);
        let patience = session.patience;
        if session.rules.is_none() && session.run_until(patience, |session| end(session).is_ok()) {
            return Ok(Answered::ok());
        }
        Answered::of(end(session))
    }
}
